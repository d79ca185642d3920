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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/requestkind"
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
	// Subject, Names and Key are read from the PKCS#10 request. A pod's request has none:
	// its Subject is the pod and the service account.
	Subject           string    `json:"subject,omitempty"`
	Names             []string  `json:"names,omitempty"`
	Usages            []string  `json:"usages,omitempty"`
	Key               string    `json:"key,omitempty"`
	ExpirationSeconds *int32    `json:"expirationSeconds,omitempty"`
	Created           time.Time `json:"created"`
	// State is Pending, Approved, Issued, Denied, Failed or Invalid. Reason is the text
	// of the condition that set it, or of what a pending request waits for.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// YouMayDecide is Yes, No or Unknown, and empty if the request needs no decision.
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
	if k := requestkind.Of(object); k != nil {
		return found{kind: k, object: object}.entry(), true
	}
	return Entry{}, false
}

// ForYou reports whether the caller may decide, or whether that is unknown.
func (e Entry) ForYou() bool {
	return e.YouMayDecide == explain.Yes || e.YouMayDecide == explain.Unknown
}

// Query selects the requests to list.
type Query struct {
	// Namespace selects CertificateRequests and PodCertificateRequests; empty for all.
	Namespace string
	// Signer selects one signer; empty for all.
	Signer string
	// SignerPart is a part of the signer's name. Search is a part of the request's name,
	// signer, requester, subject or one of its names. Both ignore case; empty for all.
	SignerPart, Search string
	// All includes requests that are decided or signed.
	All bool
	// Newest sorts the newest first, instead of the oldest.
	Newest bool
	// Skip is the number of requests to skip at the start, and Limit the maximum number
	// of requests after them; 0 for no limit.
	Skip, Limit int
}

// Inbox contains requests, oldest first.
type Inbox struct {
	Requests []Entry `json:"requests"`
	// Missing describes requests that could not be listed.
	Missing []string `json:"missing,omitempty"`
	// Total is the number of requests without Skip and Limit, Unfiltered the number
	// without Signer, SignerPart and Search also.
	Total      int `json:"-"`
	Unfiltered int `json:"-"`
}

// found is a listed request.
type found struct {
	kind    *requestkind.Kind
	object  client.Object
	created time.Time
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

// KindOf returns a kind by its group and resource.
func KindOf(k *requestkind.Kind) rights.Kind {
	return rights.Kind{Name: string(k.Name), Short: k.Short, Group: k.Resource.Group, Resource: k.Resource.Resource, Namespaced: k.Namespaced}
}

// Sharer is a Reader that holds the requests of a kind in memory.
type Sharer interface {
	// Shared returns the requests in a namespace, or in all namespaces if it is empty.
	// Callers must not modify them. ok is false if the caller must list them instead.
	Shared(ctx context.Context, kind rights.Kind, namespace string) (objects []client.Object, ok bool)
}

// objects returns the requests of a kind in a namespace, or in all namespaces if it is
// empty.
func objects(ctx context.Context, api explain.Reader, k *requestkind.Kind, namespace string) ([]client.Object, error) {
	if sharer, ok := api.(Sharer); ok {
		if shared, ok := sharer.Shared(ctx, KindOf(k), namespace); ok {
			return shared, nil
		}
	}
	kind := schema.GroupKind{Group: k.Resource.Group, Kind: string(k.Name)}
	if k.Custom {
		if _, err := api.Resource(ctx, kind); err != nil {
			return nil, err
		}
	}
	list := k.NewList()
	err := api.List(ctx, list, client.InNamespace(namespace))
	if len(k.Versions) == 1 || !served.IsMissing(err) {
		return requestkind.Items[client.Object](list), err
	}
	items, err := explain.ListAnyVersion(ctx, api, kind, client.InNamespace(namespace))
	var all []client.Object
	for _, item := range items {
		object := k.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, object); err != nil {
			return nil, fmt.Errorf("reading the %s %s/%s: %w", k.Name, item.GetNamespace(), item.GetName(), err)
		}
		all = append(all, object)
	}
	return all, err
}

// List returns the requests. It skips kinds that the server lacks, and reports kinds that
// the caller may not list in Missing.
func List(ctx context.Context, api explain.Reader, q Query) (Inbox, error) {
	inbox := Inbox{Requests: []Entry{}}
	var all []found
	var forbidden error
	for _, k := range requestkind.All {
		namespace := q.Namespace
		if !k.Namespaced {
			namespace = ""
		}
		requests, err := objects(ctx, api, k, namespace)
		switch {
		case errors.Is(err, certmanager.ErrNoResource):
			continue
		case apierrors.IsForbidden(err):
			forbidden = err
			inbox.Missing = append(inbox.Missing, missing(KindOf(k), q))
			continue
		case err != nil:
			return Inbox{}, exit.Advise("listing "+k.Resource.Resource, err)
		}
		for _, object := range requests {
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
	if forbidden != nil && len(inbox.Missing) == len(requestkind.All) {
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

// window returns the part of all that Skip and Limit select.
func (q Query) window(all []found) []found {
	all = all[min(q.Skip, len(all)):]
	if q.Limit > 0 {
		all = all[:min(q.Limit, len(all))]
	}
	return all
}

// GiveNamespace ends entries of Inbox.Missing for requests that can be listed in one
// namespace.
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

// wants reports whether the query selects a request, by its signer and by the search.
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
	e := f.entry() // decodes the names
	return contains(e.Requester, q.Search) || contains(e.Subject, q.Search) || contains(e.Called(), q.Search) ||
		slices.ContainsFunc(e.Names, func(name string) bool { return contains(name, q.Search) })
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// ask sets YouMayDecide of pending requests.
func (b *Inbox) ask(ctx context.Context, api explain.Reader) error {
	approver := explain.NewApprover(api)
	for i := range b.Requests {
		e := &b.Requests[i]
		if e.State != "Pending" || requestkind.Of(e.object).Decision == nil {
			continue
		}
		var err error
		if e.YouMayDecide, err = approver.May(ctx, e.object); err != nil {
			return exit.Advise("asking what you may decide", err)
		}
	}
	return nil
}

// SignerOf returns the signer or issuer that a request of any kind names; empty for other
// objects.
func SignerOf(object client.Object) string {
	if k := requestkind.Of(object); k != nil {
		return k.Signer(object)
	}
	return ""
}
