// Package inbox lists requests for certificates of all kinds.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
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
	// All includes the requests that nobody waits for any more.
	All bool
}

// Inbox are requests, the oldest first.
type Inbox struct {
	Requests []Entry `json:"requests"`
	// Missing says which requests could not be listed.
	Missing []string `json:"missing,omitempty"`
}

// kinds are the kinds of requests, with the functions that list them.
var kinds = []struct {
	kind rights.Kind
	list func(context.Context, explain.Reader, ...client.ListOption) ([]Entry, error)
}{
	{rights.SigningRequests, signingRequests},
	{rights.IssuerRequests, issuerRequests},
	{rights.PodRequests, podRequests},
}

// List returns the requests. Kinds that the server lacks are left out, and those
// that the caller may not list are named.
func List(ctx context.Context, api explain.Reader, q Query) (Inbox, error) {
	found := Inbox{Requests: []Entry{}}
	var forbidden error
	for _, k := range kinds {
		var options []client.ListOption
		if k.kind.Namespaced {
			options = append(options, client.InNamespace(q.Namespace))
		}
		entries, err := k.list(ctx, api, options...)
		switch {
		case errors.Is(err, certmanager.ErrNoResource):
			continue
		case apierrors.IsForbidden(err):
			forbidden = err
			found.Missing = append(found.Missing, missing(k.kind, q))
			continue
		case err != nil:
			return Inbox{}, exit.Advise("listing "+k.kind.Resource, err)
		}
		for _, e := range entries {
			if q.wants(e) {
				e.resource, e.Kind = k.kind, k.kind.Name
				found.Requests = append(found.Requests, e)
			}
		}
	}
	if forbidden != nil && len(found.Missing) == len(kinds) {
		return Inbox{}, exit.Advise("listing requests", forbidden)
	}
	slices.SortStableFunc(found.Requests, func(a, b Entry) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	return found, found.ask(ctx, api)
}

func missing(kind rights.Kind, q Query) string {
	text := "you may not list " + kind.Resource
	switch {
	case !kind.Namespaced:
		return text
	case q.Namespace == "":
		return text + " in all namespaces: for one of them, give -n NAMESPACE"
	}
	return text + " in the namespace " + q.Namespace
}

func (q Query) wants(e Entry) bool {
	return (q.Signer == "" || e.Signer == q.Signer) && (q.All || e.State == "Pending")
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

func signingRequests(ctx context.Context, api explain.Reader, options ...client.ListOption) ([]Entry, error) {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := api.List(ctx, list, options...); err != nil {
		return nil, err
	}
	var entries []Entry
	for i := range list.Items {
		entries = append(entries, ofSigningRequest(&list.Items[i]))
	}
	return entries, nil
}

func issuerRequests(ctx context.Context, api explain.Reader, options ...client.ListOption) ([]Entry, error) {
	if _, err := api.Resource(ctx, schema.GroupKind{Group: certmanager.Group, Kind: cmv1.CertificateRequestKind}); err != nil {
		return nil, err
	}
	list := &cmv1.CertificateRequestList{}
	if err := api.List(ctx, list, options...); err != nil {
		return nil, err
	}
	var entries []Entry
	for i := range list.Items {
		entries = append(entries, ofIssuerRequest(&list.Items[i]))
	}
	return entries, nil
}

func podRequests(ctx context.Context, api explain.Reader, options ...client.ListOption) ([]Entry, error) {
	kind := schema.GroupKind{Group: certificatesv1beta1.GroupName, Kind: rights.PodRequests.Name}
	found, err := explain.ListAnyVersion(ctx, api, kind, options...)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, item := range found {
		req := &certificatesv1beta1.PodCertificateRequest{} // it has the fields of all versions
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, req); err != nil {
			return nil, fmt.Errorf("reading the PodCertificateRequest %s/%s: %w", item.GetNamespace(), item.GetName(), err)
		}
		entries = append(entries, ofPodRequest(req))
	}
	return entries, nil
}
