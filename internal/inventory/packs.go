package inventory

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
)

// Record is a record of an issued certificate.
type Record = inventoryv1alpha1.IssuedCertificate

// PacksConfig configures Packs.
type PacksConfig struct {
	// Client reads past caches. It needs get and list on certificatepacks in Namespace, and to
	// write and clean also create, update and delete.
	Client    client.Client
	Namespace string
	// Keep is how long a record is kept after the end of its certificate, to the next day.
	Keep time.Duration
	// MaxBytes is how much all packs may take, for Used and Clean.
	MaxBytes int64
	Now      func() time.Time
	Metrics  prometheus.Registerer // can be nil
	// Damaged, if not nil, is called with the error about a pack that cannot be read. Its
	// records then count as deleted. If it is nil, a search fails with the error.
	Damaged func(error)
}

// Packs are the records of a cluster, in CertificatePacks of one namespace. A pack DAY-NUMBER
// has records of certificates that end on DAY: each write adds records to the last pack of
// their day, or to a new one. Its name keeps a record from being written twice. Packs is safe for
// concurrent use.
type Packs struct {
	*Index
	cfg   PacksConfig
	used  atomic.Int64
	queue queue
}

// NewPacks returns the records, which can be written at once, and searched after Load.
func NewPacks(cfg PacksConfig) (*Packs, error) {
	metrics, err := newRecordMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	p := &Packs{cfg: cfg}
	p.Index = &Index{
		now: cfg.Now, keep: cfg.Keep, readPack: p.readPack, metrics: metrics, days: map[int64]*day{},
		awaitRead:    func(context.Context) error { return nil },
		revocationOf: func(string) *inventoryv1alpha1.RevocationFacts { return nil },
		revokedDays:  func() map[int64]bool { return nil },
	}
	return p, nil
}

func (p *Packs) readPack(ctx context.Context, info *packInfo) (*pack, error) {
	_, read, err := p.open(ctx, info.key)
	return read, err
}

// open returns an object and its pack; both are empty if it does not exist, or if it is damaged
// and that is only reported.
func (p *Packs) open(ctx context.Context, name string) (*recordsv1alpha1.CertificatePack, *pack, error) {
	object := &recordsv1alpha1.CertificatePack{ObjectMeta: metav1.ObjectMeta{Namespace: p.cfg.Namespace, Name: name}}
	if err := p.cfg.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return object, &pack{}, client.IgnoreNotFound(err)
	}
	head, _ := base64.StdEncoding.DecodeString(object.Annotations[recordsv1alpha1.FilterAnnotation])
	_, _, bill, err := decodeHeader(head)
	if err == nil {
		var read *pack
		if read, err = decodePack(slices.Concat(head[:len(head)-len(bill)], object.Spec.Data, bill)); err == nil {
			return object, read, nil
		}
	}
	return object, &pack{}, p.tolerate(object, err)
}

// tolerate reports the error about a damaged pack, or returns it.
func (p *Packs) tolerate(object metav1.Object, err error) error {
	err = fmt.Errorf("reading the CertificatePack %s/%s: %w: restore it from a backup, or delete it", object.GetNamespace(), object.GetName(), err)
	if p.cfg.Damaged == nil {
		return err
	}
	p.cfg.Damaged(err)
	return nil
}

// Load reads the heads of all packs.
func (p *Packs) Load(ctx context.Context) error {
	const page = 250
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(recordsv1alpha1.GroupVersion.WithKind("CertificatePackList"))
	for {
		if err := p.cfg.Client.List(ctx, list, client.InNamespace(p.cfg.Namespace), &client.ListOptions{Limit: page, Continue: list.Continue}); err != nil {
			return fmt.Errorf("listing CertificatePacks: %w", err)
		}
		for i := range list.Items {
			if err := p.set(&list.Items[i], false); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// set notes the head of a pack. One that is read, not written, can be older than the known one,
// which then has more records.
func (p *Packs) set(object metav1.Object, written bool) error {
	var number, n int64
	if _, err := fmt.Sscanf(object.GetName(), "%d-%d", &number, &n); err != nil || object.GetName() != packName(number, n) {
		return p.tolerate(object, errors.New("the name is not that of a pack"))
	}
	// What cannot be read gets no other records, and no search leaves it out.
	info := &packInfo{number: n, key: object.GetName(), count: packRecords, filter: filter{0xff}, size: sizeOf(object)}
	head, _ := base64.StdEncoding.DecodeString(object.GetAnnotations()[recordsv1alpha1.FilterAnnotation])
	if count, f, _, err := decodeHeader(head); err == nil {
		bill := billOf(head)
		info.count, info.filter, info.newest, info.omits, info.terms = count, slices.Clone(f), bill.Newest, bill.Omits, bill.Terms
	} else if err := p.tolerate(object, err); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.day(number)
	if old := d.packs[n]; old != nil {
		if !written && old.count > info.count {
			return nil
		}
		d.packed -= old.count
		p.used.Add(-old.size)
	}
	d.packs[n] = info
	d.packed += info.count
	p.used.Add(info.size)
	return nil
}

// sizeOf returns about how many bytes a CertificatePack takes in the store of the API.
func sizeOf(object metav1.Object) int64 {
	const otherMetadata = 800
	body, _ := strconv.ParseInt(object.GetAnnotations()[recordsv1alpha1.SizeAnnotation], 10, 32)
	return otherMetadata + int64(len(object.GetAnnotations()[recordsv1alpha1.FilterAnnotation])) + body*4/3 // base64
}

// Used returns the share of MaxBytes that is used.
func (p *Packs) Used() float64 { return float64(p.used.Load()) / float64(p.cfg.MaxBytes) }

func packName(number, n int64) string { return fmt.Sprintf("%s-%08d", dayText(number), n) }

// maxConflicts is how many writes of other processes one write meets before it fails.
const maxConflicts = 10

// put writes records that end on one day. If it fails, some of them may be written.
func (p *Packs) put(ctx context.Context, number int64, records []*Record) error {
	packs, _ := p.on(number)
	n := int64(0)
	for _, info := range packs {
		n = max(n, info.number)
	}
	for conflicts := 0; len(records) > 0; {
		object, stored, err := p.open(ctx, packName(number, n))
		if err != nil {
			return err
		}
		next, rest, err := stored.with(records)
		if err != nil {
			return err
		}
		if len(rest) == len(records) || object.UID != "" && len(stored.records) == 0 { // it is full, or damaged
			n++
			continue
		}
		if len(next.records) == len(stored.records) { // an earlier attempt was late
			return nil
		}
		err = p.write(ctx, object, next, number, shortVersion)
		if (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && conflicts < maxConflicts {
			conflicts++
			continue
		}
		if err != nil {
			return fmt.Errorf("writing the CertificatePack %s: %w", object.Name, err)
		}
		records = rest
	}
	return nil
}

// with returns a pack with more records, without those that it has, and the rest that has no room.
func (p *pack) with(records []*Record) (next *pack, rest []*Record, err error) {
	move := &packing{terms: map[term]struct{}{}}
	if err := move.addAll(p, nil); err != nil {
		return nil, nil, err
	}
	for n, record := range records {
		if p.has(record.Name) {
			continue
		}
		bare := *record // what decodeRecord completes is left out
		bare.Name, bare.UID, bare.Labels = "", "", maps.Clone(record.Labels)
		maps.DeleteFunc(bare.Labels, isOwnLabel)
		data, err := json.Marshal(&bare)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding the record of a certificate: %w", err)
		}
		if !move.hasRoom(&freshRecord{size: len(data)}) {
			rest = records[n:]
			break
		}
		move.add(record, data)
	}
	return move.pack(), rest, nil
}

// write stores a pack in an object: its records, compressed, in the data, all other parts in an
// annotation.
func (p *Packs) write(ctx context.Context, object *recordsv1alpha1.CertificatePack, content *pack, number int64, version byte) error {
	value, err := content.encode(version)
	if err != nil {
		return err
	}
	_, _, rest, err := decodeHeader(value)
	if err != nil {
		return err
	}
	at, end := len(value)-len(rest), len(value)-billSize(value)
	object.Spec.Data = value[at:end]
	object.Labels = map[string]string{recordsv1alpha1.DayLabel: dayText(number)}
	object.Annotations = map[string]string{
		recordsv1alpha1.FilterAnnotation: base64.StdEncoding.EncodeToString(slices.Concat(value[:at], value[end:])),
		recordsv1alpha1.SizeAnnotation:   strconv.Itoa(end - at),
	}
	if object.UID == "" {
		err = p.cfg.Client.Create(ctx, object)
	} else {
		err = p.cfg.Client.Update(ctx, object)
	}
	if err != nil {
		return err
	}
	return p.set(object, true)
}

// nearlyFull is the share of MaxBytes from which records of ended certificates are deleted
// before their time.
const nearlyFull = 0.9

// Clean deletes the packs of certificates that have ended, Keep after that; and earlier, the
// oldest first, while the packs take nearly MaxBytes.
func (p *Packs) Clean(ctx context.Context) error {
	first, today := dayOf(p.now().Add(-p.keep)), dayOf(p.now())
	for _, number := range p.daysBetween(-1<<62, today-1) {
		packs, _ := p.on(number)
		slices.SortFunc(packs, byNumber)
		for _, info := range packs {
			if number >= first && p.Used() < nearlyFull {
				return nil
			}
			object := &recordsv1alpha1.CertificatePack{ObjectMeta: metav1.ObjectMeta{Namespace: p.cfg.Namespace, Name: info.key}}
			if err := client.IgnoreNotFound(p.cfg.Client.Delete(ctx, object)); err != nil {
				return fmt.Errorf("deleting the records of ended certificates: %w", err)
			}
			p.mu.Lock()
			d := p.day(number)
			delete(d.packs, info.number)
			d.packed -= info.count
			p.tidy(number)
			p.mu.Unlock()
			p.used.Add(-info.size)
		}
	}
	return nil
}

// ShowMetrics sets the metrics of the records until ctx ends.
func (p *Packs) ShowMetrics(ctx context.Context) {
	const every = 10 * time.Second
	go p.keepUnrenewed(ctx)
	for ctx.Err() == nil {
		p.count()
		pause(ctx, every)
	}
}
