// Package inventory serves inventory.certplane.dev: what internal/inventory has recorded,
// for reading and deleting.
package inventory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	inventoryapi "github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/policy/request"
)

// maxPage is how many records one list has at most, also if the client sets no limit: it
// has to continue then, as the lists of client-go and kubectl do.
const maxPage = 5000

// NewAPIGroup returns the group with its resources.
func NewAPIGroup(records *inventory.Inventory, signing Signing) genericapiserver.APIGroupInfo {
	group := kind.NewGroup(inventoryv1alpha1.GroupName)
	lists := newListStorage(records)
	group.VersionedResourcesStorageMap[inventoryv1alpha1.GroupVersion.Version] = map[string]rest.Storage{
		"revocationlists": lists, "revocationlists/content": &contentStorage{lists: lists}, "revocationlists/signature": &signatureStorage{lists: lists, Signing: signing},
		certificates.resource: &storage{TableConvertor: table(), records: records, view: certificates},
		decisions.resource:    &storage{TableConvertor: decisionTable(), records: records, view: decisions},
	}
	return group
}

// storage serves a view of the records.
type storage struct {
	rest.TableConvertor
	ofCluster
	records *inventory.Inventory
	view
}

// view is a kind of objects that records are shown as.
type view struct {
	kind, resource, singular string
	// of are the records that it shows, deletable those that can be deleted by it.
	of, deletable inventory.Kind
	// show returns the object of a record, list a list of the objects of records.
	show func(*inventoryv1alpha1.IssuedCertificate) runtime.Object
	list func([]inventoryv1alpha1.IssuedCertificate, metav1.ListMeta) runtime.Object
}

// certificates shows the records of certificates unchanged.
var certificates = view{
	kind: "IssuedCertificate", resource: "issuedcertificates", singular: "issuedcertificate", of: inventory.Certificates, deletable: inventory.Certificates,
	show: func(record *inventoryv1alpha1.IssuedCertificate) runtime.Object { return record },
	list: func(records []inventoryv1alpha1.IssuedCertificate, of metav1.ListMeta) runtime.Object {
		if records == nil {
			records = []inventoryv1alpha1.IssuedCertificate{}
		}
		return &inventoryv1alpha1.IssuedCertificateList{ListMeta: of, Items: records}
	},
}

// decisions shows the users who approved or denied requests. Approvals are deleted together
// with the records of their certificates.
var decisions = view{
	kind: "CertificateDecision", resource: "certificatedecisions", singular: "certificatedecision", of: inventory.Decisions, deletable: inventory.Denials,
	show: func(record *inventoryv1alpha1.IssuedCertificate) runtime.Object {
		return inventoryapi.NewDecision(record)
	},
	list: func(records []inventoryv1alpha1.IssuedCertificate, of metav1.ListMeta) runtime.Object {
		list := &inventoryv1alpha1.CertificateDecisionList{ListMeta: of, Items: []inventoryv1alpha1.CertificateDecision{}}
		for i := range records {
			list.Items = append(list.Items, *inventoryapi.NewDecision(&records[i]))
		}
		return list
	},
}

// group returns the resource with its group, for errors.
func (v view) group() schema.GroupResource {
	return inventoryv1alpha1.GroupVersion.WithResource(v.resource).GroupResource()
}

var (
	_ rest.Getter               = &storage{}
	_ rest.Lister               = &storage{}
	_ rest.Watcher              = &storage{}
	_ rest.GracefulDeleter      = &storage{}
	_ rest.CollectionDeleter    = &storage{}
	_ rest.Scoper               = &storage{}
	_ rest.SingularNameProvider = &storage{}
	_ rest.CategoriesProvider   = &storage{}
)

// New implements rest.Storage.
func (s *storage) New() runtime.Object { return s.show(&inventoryv1alpha1.IssuedCertificate{}) }

// NewList implements rest.Lister.
func (s *storage) NewList() runtime.Object { return s.list(nil, metav1.ListMeta{}) }

// Destroy implements rest.Storage.
func (s *storage) Destroy() {}

// GetSingularName implements rest.SingularNameProvider.
func (s *storage) GetSingularName() string { return s.singular }

// ofCluster are the properties of the resources of the group.
type ofCluster struct{}

// NamespaceScoped implements rest.Scoper.
func (ofCluster) NamespaceScoped() bool { return false }

// Categories implements rest.CategoriesProvider.
func (ofCluster) Categories() []string { return []string{"certplane"} }

// Get implements rest.Getter. The whole fingerprint is as good as a name.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	record, err := s.get(ctx, s.of, name)
	if err != nil {
		return nil, err
	}
	return s.show(record), nil
}

func (s *storage) get(ctx context.Context, of inventory.Kind, name string) (*inventoryv1alpha1.IssuedCertificate, error) {
	by := inventoryapi.NameOfRecord
	if len(name) == hex.EncodedLen(sha256.Size) {
		by = inventoryv1alpha1.FingerprintField
	}
	page, err := s.records.FindStored(ctx, &inventory.Query{Of: of, Fields: fields.OneTermEqualSelector(by, name), Limit: 1})
	if err != nil {
		return nil, explain(err)
	}
	if len(page.Items) == 0 {
		return nil, apierrors.NewNotFound(s.group(), name)
	}
	return &page.Items[0], nil
}

// List implements rest.Lister.
func (s *storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	query := inventory.Query{Of: s.of, Limit: maxPage}
	if options != nil {
		query.Labels, query.Fields, query.Continue = options.LabelSelector, options.FieldSelector, options.Continue
		if options.Limit > 0 {
			query.Limit = int(min(options.Limit, maxPage))
		}
	}
	page, err := s.records.FindStored(ctx, &query)
	if err != nil {
		return nil, explain(err)
	}
	return s.list(page.Items, metav1.ListMeta{ResourceVersion: strconv.FormatInt(page.Revision, 10), Continue: page.Continue}), nil
}

// explain returns an error of the inventory as one of the API.
func explain(err error) error {
	switch {
	case errors.Is(err, inventory.ErrContinue):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, rpctypes.ErrCompacted):
		return apierrors.NewResourceExpired("the resource version is too old: list again")
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the inventory is being read, try again", 1)
	}
	return apierrors.NewInternalError(err)
}

// Watch implements rest.Watcher. Without a resource version, it begins with all records.
func (s *storage) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	query := inventory.Query{Of: s.of, Limit: maxPage}
	if options != nil {
		query.Labels, query.Fields = options.LabelSelector, options.FieldSelector
	}
	revision, err := watchedFrom(options, s.kind)
	if err != nil {
		return nil, err
	}
	return watchWith(ctx, func(ctx context.Context, w *watcher) error { return s.follow(ctx, w, query, revision) }), nil
}

// watchedFrom returns the revision after which a watch begins; 0 is with all objects.
func watchedFrom(options *internalversion.ListOptions, kind string) (int64, error) {
	if options == nil || options.ResourceVersion == "" && options.SendInitialEvents == nil {
		return 0, nil
	}
	if options.SendInitialEvents != nil {
		// Clients list and watch instead, as with servers that do not support this field.
		refused := field.Forbidden(field.NewPath("sendInitialEvents"), "is not supported for "+kind+"s: list them, then watch")
		return 0, apierrors.NewInvalid(inventoryv1alpha1.GroupVersion.WithKind(kind).GroupKind(), "", field.ErrorList{refused})
	}
	revision, err := strconv.ParseInt(options.ResourceVersion, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: %q is not a resource version", options.ResourceVersion))
	}
	return revision, nil
}

// watcher sends the changes of the inventory to a client.
type watcher struct {
	results chan watch.Event
	cancel  context.CancelFunc
}

// watchWith returns a watch of what follow sends.
func watchWith(ctx context.Context, follow func(context.Context, *watcher) error) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{results: make(chan watch.Event), cancel: cancel}
	go w.run(ctx, follow)
	return w
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher) run(ctx context.Context, follow func(context.Context, *watcher) error) {
	defer close(w.results)
	defer w.cancel()
	err := follow(ctx, w)
	if err == nil || ctx.Err() != nil {
		return
	}
	status := &metav1.Status{}
	var api apierrors.APIStatus
	if errors.As(explain(err), &api) {
		*status = api.Status()
	}
	w.send(ctx, watch.Event{Type: watch.Error, Object: status})
}

func (s *storage) follow(ctx context.Context, w *watcher, query inventory.Query, revision int64) error {
	for first := true; revision == 0 || query.Continue != ""; first = false {
		page, err := s.records.Find(ctx, &query)
		if err != nil {
			return err
		}
		if first {
			revision = page.Revision // records written in the meantime may be sent twice
		}
		for i := range page.Items {
			if !w.send(ctx, watch.Event{Type: watch.Added, Object: s.show(&page.Items[i])}) {
				return ctx.Err()
			}
		}
		query.Continue = page.Continue
	}
	return s.records.Watch(ctx, revision, func(e inventory.Event) bool {
		if e.Revoked {
			return s.revoked(ctx, w, query, e)
		}
		if !query.Matches(e.Record) {
			return true
		}
		event := watch.Event{Type: watch.Added, Object: s.show(e.Record)}
		if e.Deleted {
			event.Type = watch.Deleted
		}
		return w.send(ctx, event)
	})
}

// revoked sends the record of a certificate that was revoked, if there is one: the selector may
// have matched it before, match it now, or both. It returns false if the watch must end.
func (s *storage) revoked(ctx context.Context, w *watcher, query inventory.Query, e inventory.Event) bool {
	if query.Of != inventory.Certificates {
		return true // others do not show it
	}
	named := inventory.Query{Fields: fields.OneTermEqualSelector(inventoryapi.NameOfRecord, e.Record.Name), Limit: 1}
	if end := e.Record.Certificate.NotAfter; !end.IsZero() { // so that one day is searched
		named.Labels = labels.SelectorFromSet(labels.Set{inventoryv1alpha1.NotAfterLabel: strconv.FormatInt(end.Unix(), 10)})
	}
	page, err := s.records.Find(ctx, &named)
	if err != nil || len(page.Items) == 0 {
		return err == nil
	}
	record := &page.Items[0]
	before := *record
	before.Revocation = nil
	record.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	event := watch.Event{Type: watch.Modified, Object: s.show(record)}
	switch was, is := query.Matches(&before), query.Matches(record); {
	case !was && !is:
		return true
	case !was:
		event.Type = watch.Added
	case !is:
		event.Type = watch.Deleted
	}
	return w.send(ctx, event)
}

// slowest is the maximum time a client may take for an event. Then its watch ends, because
// unread events would have to be kept in memory.
const slowest = 10 * time.Second

func (w *watcher) send(ctx context.Context, event watch.Event) bool {
	late := time.NewTimer(slowest)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-late.C:
		w.cancel()
		return false
	case w.results <- event:
		return true
	}
}

func table() kind.Table[inventoryv1alpha1.IssuedCertificate] {
	return kind.Table[inventoryv1alpha1.IssuedCertificate]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("Names", "The names of the certificate, or its subject if it has none."),
			kind.Column("Signer", "The name of the signer."),
			kind.Column("Requester", "The user who made the request."),
			kind.Column("State", "valid, revoked or ended."),
			kind.Column("Ends", "The time until the certificate ends."),
			kind.AgeColumn(),
			kind.Wide("Serial", "The serial number, hexadecimal."),
			kind.Wide("Request", "The kind and the name of the request."),
			kind.Wide("Approvers", "The users who approved the request."),
			kind.Wide("Location", "The object that uses the certificate."),
		},
		Cells: cells,
	}
}

func decisionTable() kind.Table[inventoryv1alpha1.CertificateDecision] {
	return kind.Table[inventoryv1alpha1.CertificateDecision]{
		Columns: []metav1.TableColumnDefinition{
			kind.Name(),
			kind.Column("Decision", "Approved or Denied."),
			kind.Column("By", "The user who decided."),
			kind.Column("Names", "The requested names, or the subject if there are none."),
			kind.Column("Signer", "The name of the signer."),
			kind.Column("Requester", "The user who made the request."),
			kind.Column("When", "The time since the decision."),
			kind.Wide("Request", "The kind and the name of the request."),
			kind.Wide("Policies", "The policies that decided."),
			kind.Wide("Message", "The message of the condition."),
		},
		Cells: decisionCells,
	}
}

func decisionCells(d *inventoryv1alpha1.CertificateDecision, now time.Time) []any {
	users, decided := "<unknown>", "<unknown>"
	if len(d.Users) > 0 {
		users = strings.Join(d.Users, ",")
	}
	if d.Time != nil {
		decided = kind.Age(*d.Time, now)
	}
	var by []string
	for _, policy := range d.Policies {
		by = append(by, policy.Name)
	}
	return []any{
		d.Name, d.Decision, users, inventoryapi.NamesOfDecision(d), d.SignerName, d.Request.Requester, decided,
		d.Request.Kind + " " + request.FullName(d.Request.Namespace, d.Request.Name), strings.Join(by, ","), d.Message,
	}
}

func cells(record *inventoryv1alpha1.IssuedCertificate, now time.Time) []any {
	approvers := "<unknown>"
	if a := record.Approval; a != nil && len(a.Approvers) > 0 {
		approvers = strings.Join(a.Approvers, ",")
	}
	location := cmp.Or(inventoryapi.LocationText(record.Location), "<unknown>")
	return []any{
		record.Name, inventoryapi.ShownNames(&record.Certificate), record.SignerName, record.Request.Requester,
		inventoryapi.State(record, now), endCell(record, now), kind.Age(record.CreationTimestamp, now),
		record.Certificate.SerialNumber, record.Request.Kind + " " + request.FullName(record.Request.Namespace, record.Request.Name), approvers, location,
	}
}

func endCell(record *inventoryv1alpha1.IssuedCertificate, now time.Time) string {
	end := record.Certificate.NotAfter
	if !end.After(now) {
		return "<none>"
	}
	return kind.Age(metav1.NewTime(now.Add(-end.Sub(now))), now)
}
