// Package packstore keeps the records of a cluster in CertificatePacks of one namespace.
//
//	DAY-NUMBER          records of certificates that end on DAY, packed
//	open-WRITER-NUMBER  the journal of one process: records that are not packed yet
//
// A record is first in a journal, then also in a pack, and then only in the pack. So a program
// that reads the journals first and then the packs finds all records; their names tell which it
// has found twice.
package packstore

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
)

// Config configures a Store.
type Config struct {
	// Client reads past caches. It needs get and list on certificatepacks in Namespace; a
	// Store that packs also needs create, update and delete.
	Client    client.Client
	Namespace string
	// Keep is how long a record is kept after the end of its certificate, to the next day.
	Keep time.Duration
	// MaxBytes is how much all packs may take; 0 is no bound. Only Clean and Used need it.
	MaxBytes int64
	Now      func() time.Time
	// Metrics is where the metrics of the records are registered; it can be nil.
	Metrics prometheus.Registerer
	// Damaged, if not nil, is called with the error about a pack that cannot be read. Its
	// records then count as deleted. If it is nil, a search fails with the error.
	Damaged func(error)
}

// Store finds and packs the records of a cluster. Searches are safe for concurrent use; one
// goroutine at a time may call Load, Pack and Clean.
type Store struct {
	*inventory.Index
	cfg Config

	loaded    chan struct{} // closed after the first Load
	setLoaded func()

	mu sync.Mutex
	// sizes are the bytes of each object, by its name, and used is their sum.
	sizes map[string]int64
	used  int64
	// stale means that another process has written packs since Load.
	stale bool
	// last are the highest numbers of packs, by day.
	last map[int64]int64
	// own is the name of the journal that this process writes to.
	own string
}

// New returns a store that is empty until Load.
func New(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, loaded: make(chan struct{}), sizes: map[string]int64{}, last: map[int64]int64{}}
	s.setLoaded = sync.OnceFunc(func() { close(s.loaded) })
	var err error
	s.Index, err = s.newIndex(cfg.Metrics, func(ctx context.Context) error {
		select {
		case <-s.loaded:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting for the inventory to be read: %w", ctx.Err())
		}
	})
	return s, err
}

func (s *Store) newIndex(metrics prometheus.Registerer, await func(context.Context) error) (*inventory.Index, error) {
	return inventory.NewIndex(inventory.IndexConfig{Get: s.get, AwaitRead: await, Keep: s.cfg.Keep, Now: s.cfg.Now, Tolerate: s.tolerate, Metrics: metrics})
}

// get returns the pack in an object; nil if the object does not exist.
func (s *Store) get(ctx context.Context, name string) ([]byte, error) {
	object := &recordsv1alpha1.CertificatePack{}
	err := s.cfg.Client.Get(ctx, client.ObjectKey{Namespace: s.cfg.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CertificatePack %s: %w", name, err)
	}
	value, err := packIn(object)
	return value, s.tolerate(err)
}

// tolerate reports the error about a damaged pack, and returns it unless that is enough.
func (s *Store) tolerate(err error) error {
	if err != nil && s.cfg.Damaged != nil {
		s.cfg.Damaged(err)
		return nil
	}
	return err
}

// packIn returns the pack in an object.
func packIn(object *recordsv1alpha1.CertificatePack) (value []byte, err error) {
	head, err := headOf(object)
	if err == nil {
		value, err = inventory.Join(head, object.Spec.Data)
	}
	if err != nil {
		return nil, damaged(object, err)
	}
	return value, nil
}

func headOf(object metav1.Object) ([]byte, error) {
	return base64.StdEncoding.DecodeString(object.GetAnnotations()[recordsv1alpha1.FilterAnnotation])
}

func damaged(object metav1.Object, err error) error {
	return fmt.Errorf("reading the CertificatePack %s/%s, which should be restored from a backup or deleted: %w", object.GetNamespace(), object.GetName(), err)
}

// fill puts a pack into an object, with its state.
func fill(object *recordsv1alpha1.CertificatePack, value []byte, labels map[string]string) error {
	head, body, err := inventory.Split(value)
	if err != nil {
		return fmt.Errorf("storing records: %w", err)
	}
	object.Labels, object.Spec.Data = labels, body
	object.Annotations = map[string]string{
		recordsv1alpha1.FilterAnnotation: base64.StdEncoding.EncodeToString(head),
		recordsv1alpha1.SizeAnnotation:   strconv.Itoa(len(body)),
	}
	return nil
}

// metadataBytes is about what the metadata of a CertificatePack take in the store of the API, without
// its filter.
const metadataBytes = 800

// sizeOf returns about how many bytes an object takes in the store of the API, where binary
// data are base64.
func sizeOf(object metav1.Object) int64 {
	body, _ := strconv.ParseInt(object.GetAnnotations()[recordsv1alpha1.SizeAnnotation], 10, 32)
	return metadataBytes + int64(len(object.GetAnnotations()[recordsv1alpha1.FilterAnnotation])) + body*4/3
}

// resize notes the size of an object; nil if it was deleted.
func (s *Store) resize(name string, object metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= s.sizes[name]
	delete(s.sizes, name)
	if object != nil {
		s.sizes[name] = sizeOf(object)
		s.used += s.sizes[name]
	}
}

// Used returns the share of MaxBytes that is used; 0 without a bound.
func (s *Store) Used() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.MaxBytes == 0 {
		return 0
	}
	return float64(s.used) / float64(s.cfg.MaxBytes)
}

// listPage is how many objects are read at once.
const listPage = 250

// Load reads the journals, and the heads of all packs.
func (s *Store) Load(ctx context.Context) error {
	mark := s.Mark()
	next, err := s.newIndex(nil, nil)
	if err != nil {
		return err
	}
	read := &Store{cfg: s.cfg, sizes: map[string]int64{}, last: map[int64]int64{}, Index: next}
	err = s.eachJournal(ctx, func(object *recordsv1alpha1.CertificatePack, records []*inventory.Record) error {
		read.resize(object.Name, object)
		next.Add(records...)
		return nil
	})
	if err != nil {
		return err
	}
	if err := read.loadHeads(ctx); err != nil {
		return err
	}
	s.Take(next, mark)
	s.mu.Lock()
	s.sizes, s.used, s.last, s.stale = read.sizes, read.used, read.last, false
	s.mu.Unlock()
	s.setLoaded()
	return nil
}

// loadHeads reads the heads of all packs.
func (s *Store) loadHeads(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(recordsv1alpha1.GroupVersion.WithKind("CertificatePackList"))
	for {
		err := s.cfg.Client.List(ctx, list, client.InNamespace(s.cfg.Namespace), client.MatchingLabels{recordsv1alpha1.StateLabel: recordsv1alpha1.Packed},
			&client.ListOptions{Limit: listPage, Continue: list.Continue})
		if err != nil {
			return fmt.Errorf("listing CertificatePacks: %w", err)
		}
		for i := range list.Items {
			if err := s.tolerate(s.loadHead(&list.Items[i])); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

func (s *Store) loadHead(object metav1.Object) error {
	number, n, err := parseName(object.GetName())
	if err != nil {
		return err
	}
	s.resize(object.GetName(), object)
	s.last[number] = max(s.last[number], n)
	head, err := headOf(object)
	if err == nil {
		err = s.SetPack(object.GetName(), number, n, head)
	}
	if err != nil {
		return damaged(object, err)
	}
	return nil
}

// eachJournal calls found for each journal in the API that can be read.
func (s *Store) eachJournal(ctx context.Context, found func(*recordsv1alpha1.CertificatePack, []*inventory.Record) error) error {
	next := ""
	for {
		list := &recordsv1alpha1.CertificatePackList{}
		err := s.cfg.Client.List(ctx, list, client.InNamespace(s.cfg.Namespace), client.MatchingLabels{recordsv1alpha1.StateLabel: recordsv1alpha1.Open},
			&client.ListOptions{Limit: listPage, Continue: next})
		if err != nil {
			return fmt.Errorf("listing CertificatePacks: %w", err)
		}
		for i := range list.Items {
			value, err := packIn(&list.Items[i])
			var records []*inventory.Record
			if err == nil {
				records, err = inventory.Unpack(value)
			}
			if err != nil {
				if err := s.tolerate(damaged(&list.Items[i], err)); err != nil {
					return err
				}
				continue
			}
			if err := found(&list.Items[i], records); err != nil {
				return err
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// packName is the name of a pack: its day, and its number on the day.
func packName(number, n int64) string { return fmt.Sprintf("%s-%08d", dayText(number), n) }

func dayText(number int64) string { return fmt.Sprintf("%06d", number) }

func parseName(name string) (number, n int64, err error) {
	day, text, _ := strings.Cut(name, "-")
	number, err = strconv.ParseInt(day, 10, 64)
	if err == nil {
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the CertificatePack %q has a name that no version of this program has given it: delete it", name)
	}
	return number, n, nil
}
