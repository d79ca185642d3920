// Package inbox lists requests for certificates of all kinds.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/rights"
)

// Entry is a request.
type Entry struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Signer is the requested signer or issuer.
	Signer    string `json:"signer"`
	Requester string `json:"requester"`
	// Subject, Names and Key are those of the PKCS#10 request. Of a pod's request,
	// which has none, Subject is the pod and its service account.
	Subject           string    `json:"subject,omitempty"`
	Names             []string  `json:"names,omitempty"`
	Usages            []string  `json:"usages,omitempty"`
	Key               string    `json:"key,omitempty"`
	ExpirationSeconds *int32    `json:"expirationSeconds,omitempty"`
	Created           time.Time `json:"created"`
	// State is Pending, Approved, Issued, Denied, Failed or Invalid. Reason is the text
	// of the condition that made it, or what a pending request waits for.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// YouMayDecide is Yes, No or Unknown, and empty if there is nothing to decide.
	YouMayDecide explain.Result `json:"youMayDecide,omitempty"`

	resource rights.Kind
	object   client.Object
}

// Resource is the kind of the request, as rights name it.
func (e Entry) Resource() rights.Kind { return e.resource }

// Object is the request itself, which must not be changed.
func (e Entry) Object() client.Object { return e.object }

// EntryOf returns the entry of a request of any kind, without YouMayDecide. ok is false
// for other objects.
func EntryOf(object client.Object) (e Entry, ok bool) {
	for _, k := range kinds {
		if k.is(object) {
			return found{kind: k, object: object}.entry(), true
		}
	}
	return Entry{}, false
}

// ForYou reports whether the caller may decide, or may be allowed to.
func (e Entry) ForYou() bool {
	return e.YouMayDecide == explain.Yes || e.YouMayDecide == explain.Unknown
}

// Query says which requests to list.
type Query struct {
	// Namespace of CertificateRequests and PodCertificateRequests; empty for all.
	Namespace string
	// Signer is the only signer; empty for all.
	Signer string
	// SignerPart is a part of the signer's name, and Search a part of the name of the
	// request, its signer, its requester, its subject or one of its names. Neither
	// distinguishes upper and lower case; empty for all.
	SignerPart, Search string
	// All includes the requests that nobody waits for any more.
	All bool
	// Newest puts the newest in front, in place of the oldest.
	Newest bool
	// Skip leaves out that many of the oldest, and Limit all after that many more; 0
	// is no limit.
	Skip, Limit int
}

// Inbox are requests, the oldest first.
type Inbox struct {
	Requests []Entry `json:"requests"`
	// Missing says which requests could not be listed.
	Missing []string `json:"missing,omitempty"`
	// Total is how many there are without Skip and Limit, Unfiltered how many without
	// Signer, SignerPart and Search, too.
	Total      int `json:"-"`
	Unfiltered int `json:"-"`
}

// found is a request that has been listed.
type found struct {
	kind    *kind
	object  client.Object
	created time.Time
}

// entry returns the entry of the request, without YouMayDecide.
func (f found) entry() Entry {
	e := f.kind.entry(f.object)
	e.resource, e.Kind = f.kind.Kind, f.kind.Name
	return e
}

// compare orders requests by their age, then by their names.
func (f found) compare(other found) int {
	if c := f.created.Compare(other.created); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(f.object.GetName(), other.object.GetName()), cmp.Compare(f.object.GetNamespace(), other.object.GetNamespace()),
		cmp.Compare(f.kind.Name, other.kind.Name),
	)
}

// kind is a kind of requests.
type kind struct {
	rights.Kind
	list  func(context.Context, explain.Reader, ...client.ListOption) ([]client.Object, error)
	entry func(client.Object) Entry
	is    func(client.Object) bool
}

// Sharer is a Reader that has the requests of a kind already.
type Sharer interface {
	// Shared returns the requests that a list of a namespace would have, or of all
	// namespaces if it is empty. Nobody may change them. ok is false if they are to be
	// listed.
	Shared(ctx context.Context, kind rights.Kind, namespace string) (objects []client.Object, ok bool)
}

// objects returns the requests of a kind in a namespace, or in all if it is empty.
func (k *kind) objects(ctx context.Context, api explain.Reader, namespace string) ([]client.Object, error) {
	if sharer, ok := api.(Sharer); ok {
		if shared, ok := sharer.Shared(ctx, k.Kind, namespace); ok {
			return shared, nil
		}
	}
	return k.list(ctx, api, client.InNamespace(namespace))
}

// kinds are all kinds of requests.
var kinds = []*kind{
	{rights.SigningRequests, signingRequests, of(ofSigningRequest), is[*certificatesv1.CertificateSigningRequest]},
	{rights.IssuerRequests, issuerRequests, of(ofIssuerRequest), is[*cmv1.CertificateRequest]},
	{rights.PodRequests, podRequests, of(ofPodRequest), is[*certificatesv1beta1.PodCertificateRequest]},
}

// List returns the requests. Kinds that the server lacks are left out, and those
// that the caller may not list are named.
func List(ctx context.Context, api explain.Reader, q Query) (Inbox, error) {
	inbox := Inbox{Requests: []Entry{}}
	var all []found
	var forbidden error
	for _, k := range kinds {
		namespace := q.Namespace
		if !k.Namespaced {
			namespace = ""
		}
		objects, err := k.objects(ctx, api, namespace)
		switch {
		case errors.Is(err, certmanager.ErrNoResource):
			continue
		case apierrors.IsForbidden(err):
			forbidden = err
			inbox.Missing = append(inbox.Missing, missing(k.Kind, q))
			continue
		case err != nil:
			return Inbox{}, exit.Advise("listing "+k.Resource, err)
		}
		for _, object := range objects {
			f := found{k, object, object.GetCreationTimestamp().Time}
			if !q.All && !f.waits() {
				continue
			}
			inbox.Unfiltered++
			if q.wants(f) {
				all = append(all, f)
			}
		}
	}
	if forbidden != nil && len(inbox.Missing) == len(kinds) {
		return Inbox{}, exit.Advise("listing requests", forbidden)
	}
	slices.SortFunc(all, found.compare)
	if q.Newest {
		slices.Reverse(all)
	}
	inbox.Total = len(all)
	for _, f := range q.window(all) {
		inbox.Requests = append(inbox.Requests, f.entry())
	}
	return inbox, inbox.ask(ctx, api)
}

// window returns the part of all that Skip and Limit leave.
func (q Query) window(all []found) []found {
	all = all[min(q.Skip, len(all)):]
	if q.Limit > 0 {
		all = all[:min(q.Limit, len(all))]
	}
	return all
}

// GiveNamespace says at the end of some of Inbox.Missing how to list one namespace.
const GiveNamespace = "for one of them, give -n NAMESPACE"

func missing(kind rights.Kind, q Query) string {
	text := "you may not list " + kind.Resource
	switch {
	case !kind.Namespaced:
		return text
	case q.Namespace == "":
		return text + " in all namespaces: " + GiveNamespace
	}
	return text + " in the namespace " + q.Namespace
}

func (f found) waits() bool {
	state, _ := explain.StateOf(f.object)
	return state == certificates.Pending
}

// wants reports whether a request is selected by its signer and by the search.
func (q Query) wants(f found) bool {
	signer := SignerOf(f.object)
	switch {
	case q.Signer != "" && signer != q.Signer:
		return false
	case q.SignerPart != "" && !contains(signer, q.SignerPart):
		return false
	case q.Search == "" || contains(f.object.GetName(), q.Search) || contains(signer, q.Search):
		return true
	}
	e := f.entry() // its names have to be decoded
	return contains(e.Requester, q.Search) || contains(e.Subject, q.Search) || contains(e.Called(), q.Search) ||
		slices.ContainsFunc(e.Names, func(name string) bool { return contains(name, q.Search) })
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// ask finds out about which pending requests the caller may decide.
func (b *Inbox) ask(ctx context.Context, api explain.Reader) error {
	approver := explain.NewApprover(api)
	for i := range b.Requests {
		e := &b.Requests[i]
		if e.State != "Pending" || e.resource.Name == rights.PodRequests.Name {
			continue
		}
		var err error
		if e.YouMayDecide, err = approver.May(ctx, e.object); err != nil {
			return exit.Advise("asking what you may decide", err)
		}
	}
	return nil
}

// of returns f for objects of all types, of which it gets only its own.
func of[T client.Object](f func(T) Entry) func(client.Object) Entry {
	return func(object client.Object) Entry { return f(object.(T)) }
}

func is[T client.Object](object client.Object) bool {
	_, ok := object.(T)
	return ok
}

// SignerOf returns the signer or issuer that a request of any kind wants; empty for other
// objects.
func SignerOf(object client.Object) string {
	switch o := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return o.Spec.SignerName
	case *certificatesv1beta1.PodCertificateRequest:
		return o.Spec.SignerName
	case *cmv1.CertificateRequest:
		return certmanager.SignerText(o)
	}
	return ""
}

func signingRequests(ctx context.Context, api explain.Reader, options ...client.ListOption) ([]client.Object, error) {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := api.List(ctx, list, options...); err != nil {
		return nil, err
	}
	return objects(list.Items), nil
}

func issuerRequests(ctx context.Context, api explain.Reader, options ...client.ListOption) ([]client.Object, error) {
	if _, err := api.Resource(ctx, schema.GroupKind{Group: certmanager.Group, Kind: cmv1.CertificateRequestKind}); err != nil {
		return nil, err
	}
	list := &cmv1.CertificateRequestList{}
	if err := api.List(ctx, list, options...); err != nil {
		return nil, err
	}
	return objects(list.Items), nil
}

// podRequests lists the requests of pods as v1beta1, which has the fields of all versions.
func podRequests(ctx context.Context, api explain.Reader, options ...client.ListOption) ([]client.Object, error) {
	list := &certificatesv1beta1.PodCertificateRequestList{}
	err := api.List(ctx, list, options...)
	if !served.IsMissing(err) {
		return objects(list.Items), err
	}
	kind := schema.GroupKind{Group: certificatesv1beta1.GroupName, Kind: rights.PodRequests.Name}
	items, err := explain.ListAnyVersion(ctx, api, kind, options...)
	if err != nil {
		return nil, err
	}
	list.Items = make([]certificatesv1beta1.PodCertificateRequest, len(items))
	for i, item := range items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &list.Items[i]); err != nil {
			return nil, fmt.Errorf("reading the PodCertificateRequest %s/%s: %w", item.GetNamespace(), item.GetName(), err)
		}
	}
	return objects(list.Items), nil
}

// objects returns pointers to the items of a list.
func objects[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	all := make([]client.Object, len(items))
	for i := range items {
		all[i] = P(&items[i])
	}
	return all
}
