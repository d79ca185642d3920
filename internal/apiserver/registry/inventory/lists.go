package inventory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// listStorage serves the revocation lists, for reading.
type listStorage struct {
	rest.TableConvertor
	ofCluster
	listObject
	records *inventory.Inventory
}

var (
	_ rest.Getter               = &listStorage{}
	_ rest.Lister               = &listStorage{}
	_ rest.Watcher              = &listStorage{}
	_ rest.Scoper               = &listStorage{}
	_ rest.SingularNameProvider = &listStorage{}
	_ rest.CategoriesProvider   = &listStorage{}
)

func newListStorage(records *inventory.Inventory) *listStorage {
	return &listStorage{TableConvertor: listTable(), records: records}
}

// listObject implements rest.Storage.
type listObject struct{}

// New implements rest.Storage.
func (listObject) New() runtime.Object { return &inventoryv1alpha1.RevocationList{} }

// Destroy implements rest.Storage.
func (listObject) Destroy() {}

// NewList implements rest.Lister.
func (s *listStorage) NewList() runtime.Object { return &inventoryv1alpha1.RevocationListList{} }

// GetSingularName implements rest.SingularNameProvider.
func (s *listStorage) GetSingularName() string { return "revocationlist" }

var listResource = inventoryv1alpha1.GroupVersion.WithResource("revocationlists").GroupResource()

func listNotFound(name string) error { return apierrors.NewNotFound(listResource, name) }

func (s *listStorage) find(ctx context.Context, name string) (*revocation.List, error) {
	if err := s.records.AwaitRead(ctx); err != nil {
		return nil, explain(err)
	}
	if list := s.records.Lists.Get(name); list != nil && shown(list) != nil {
		return list, nil
	}
	return nil, listNotFound(name)
}

// Get implements rest.Getter.
func (s *listStorage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	list, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.show(list), nil
}

// shown returns the list that is described: the one whose bytes this server has, or the last
// one if it has none.
func shown(list *revocation.List) *revocation.StoredList { return cmp.Or(list.Served, list.Last) }

func (s *listStorage) show(list *revocation.List) *inventoryv1alpha1.RevocationList {
	of := shown(list)
	object := describe(list.ID, of, list.Revision)
	object.Current, object.URL = true, s.records.Lists.URL(list.ID)
	switch {
	case list.Err != nil:
		object.Current, object.Message = false, "This server does not have the list that was signed last: "+list.Err.Error()
	case !list.Usable(s.records.Now()):
		object.Current, object.Message = false, fmt.Sprintf("No other list has been signed, and this one ended at %s", of.NextUpdate.Format(time.RFC3339))
	}
	return object
}

// describe returns a stored list as an object.
func describe(id string, of *revocation.StoredList, revision int64) *inventoryv1alpha1.RevocationList {
	object := &inventoryv1alpha1.RevocationList{
		ObjectMeta: metav1.ObjectMeta{
			Name: id, UID: types.UID(id), ResourceVersion: strconv.FormatInt(revision, 10), CreationTimestamp: metav1.NewTime(of.ThisUpdate),
		},
		SignerNames: of.Signers, Number: of.Number, ThisUpdate: metav1.NewTime(of.ThisUpdate), NextUpdate: metav1.NewTime(of.NextUpdate), RenewBy: metav1.NewTime(of.RenewBy),
		Entries: int64(of.Entries), Bytes: int64(of.Size), SHA256: hex.EncodeToString(of.SHA256),
	}
	if chain, err := of.Certificates(); err == nil {
		object.Subject, object.CACertificates = chain[0].Subject.String(), string(pki.EncodeCertificates(chain...))
	}
	return object
}

// List implements rest.Lister.
func (s *listStorage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	if err := s.records.AwaitRead(ctx); err != nil {
		return nil, explain(err)
	}
	all := &inventoryv1alpha1.RevocationListList{Items: []inventoryv1alpha1.RevocationList{}}
	version := int64(1)
	for _, list := range s.records.Lists.All() {
		version = max(version, list.Revision)
		if shown(list) != nil && selects(options, list.ID) {
			all.Items = append(all.Items, *s.show(list))
		}
	}
	all.ResourceVersion = strconv.FormatInt(version, 10)
	return all, nil
}

// selects reports whether a client wants the list with this name. Lists have no labels.
func selects(options *internalversion.ListOptions, name string) bool {
	if options == nil {
		return true
	}
	isNamed := options.FieldSelector == nil || options.FieldSelector.Matches(fields.Set{"metadata.name": name})
	return isNamed && (options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set{}))
}

// Watch implements rest.Watcher. It begins with the lists that are newer than the resource
// version.
func (s *listStorage) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	since, err := watchedFrom(options, "RevocationList")
	if err != nil {
		return nil, err
	}
	if err := s.records.AwaitRead(ctx); err != nil {
		return nil, explain(err)
	}
	return watchWith(ctx, func(ctx context.Context, w *watcher) error {
		s.follow(ctx, w, options, since)
		return nil
	}), nil
}

func (s *listStorage) follow(ctx context.Context, w *watcher, options *internalversion.ListOptions, since int64) {
	sent := map[string]*inventoryv1alpha1.RevocationList{}
	for {
		changed, deleted := s.records.Lists.Changed(), maps.Clone(sent)
		for _, list := range s.records.Lists.All() {
			if shown(list) == nil || !selects(options, list.ID) {
				continue
			}
			object, before := s.show(list), sent[list.ID]
			sent[list.ID] = object
			delete(deleted, list.ID)
			event := watch.Event{Type: watch.Modified, Object: object}
			if before == nil {
				event.Type = watch.Added
			}
			if list.Revision > since && !apiequality.Semantic.DeepEqual(before, object) && !w.send(ctx, event) {
				return
			}
		}
		since = 0 // of the lists at the beginning
		for name, object := range deleted {
			delete(sent, name)
			if !w.send(ctx, watch.Event{Type: watch.Deleted, Object: object}) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func listTable() kind.Table[inventoryv1alpha1.RevocationList] {
	return kind.Table[inventoryv1alpha1.RevocationList]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("CA", "The subject of the CA."),
			kind.Column("Number", "The number of the list."),
			kind.Column("Entries", "The number of certificates in the list."),
			kind.Column("Current", "Whether this server has the list that was signed last, and it has not ended."),
			kind.Column("Ends", "The time until the list ends."),
			kind.AgeColumn(),
			kind.Wide("Signers", "The signers that sign with the CA."),
			kind.Wide("Bytes", "The size of the list."),
			kind.Wide("URL", "Where everybody gets the list."),
		},
		Cells: func(l *inventoryv1alpha1.RevocationList, now time.Time) []any {
			ends := "ended"
			if l.NextUpdate.After(now) {
				ends = kind.Age(metav1.NewTime(now.Add(-l.NextUpdate.Sub(now))), now)
			}
			return []any{l.Name, l.Subject, l.Number, l.Entries, strconv.FormatBool(l.Current), ends, kind.Age(l.ThisUpdate, now), strings.Join(l.SignerNames, ","), l.Bytes, l.URL}
		},
	}
}

// contentStorage serves the bytes of the lists.
type contentStorage struct {
	listObject
	lists *listStorage
}

var (
	_ rest.Getter          = &contentStorage{}
	_ rest.StorageMetadata = &contentStorage{}
)

// ProducesMIMETypes implements rest.StorageMetadata.
func (s *contentStorage) ProducesMIMETypes(string) []string { return []string{listType} }

// ProducesObject implements rest.StorageMetadata.
func (s *contentStorage) ProducesObject(string) any { return "" }

// listType is the media type of a list in DER (RFC 2585 section 4.2).
const listType = "application/pkix-crl"

// Get implements rest.Getter. An ended list is never returned.
func (s *contentStorage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	list, err := s.lists.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if !list.Usable(s.lists.records.Now()) {
		problem := apierrors.NewServiceUnavailable("the CA has no revocation list that is valid now: certplane check says why")
		problem.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 60}
		return nil, problem
	}
	return &content{der: list.DER}, nil
}

// content is the content of a list as a response.
type content struct {
	inventoryv1alpha1.RevocationList
	der []byte
}

var _ rest.ResourceStreamer = &content{}

// InputStream implements rest.ResourceStreamer.
func (c *content) InputStream(context.Context, string, string) (stream io.ReadCloser, flush bool, mimeType string, err error) {
	return io.NopCloser(bytes.NewReader(c.der)), false, listType, nil
}
