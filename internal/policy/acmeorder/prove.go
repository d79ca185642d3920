package acmeorder

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/request"
)

// Proof is an order that may be what a request was made for, and what else shows
// whether it is.
type Proof struct {
	Order   *v1alpha1.AcmeOrder
	Account AccountFacts
	// Endpoint is needed if NeedsEndpoint returns true. It is nil if the endpoint is gone.
	Endpoint *Endpoint
}

// NeedsEndpoint reports whether the order does not contain the UID of its request yet. The
// UID is written right after the request is created. Until then, a request of that name
// must have exactly the content that is made for the order.
func (p Proof) NeedsEndpoint() bool {
	return p.Order.Status.Request != nil && p.Order.Status.Request.UID == ""
}

// Of returns what the order proves about a request; nil if it is not the order of the
// request, or proves nothing anymore: it has ended without a certificate, an authorization
// or the account is not in force. Labels and annotations of the request do not count: any
// requester can set them.
func (p Proof) Of(r request.Request, now time.Time) *v1alpha1.ProvenOrder {
	o, of := p.Order, p.Order.Status.Request
	switch {
	case !NamesRequest(o, r):
		return nil
	case of.UID != "" && string(of.UID) != r.UID:
		return nil
	case p.Account.Account == nil || p.Account.Account.Name != o.Spec.Account || p.Account.Problem() != nil:
		return nil
	case !p.inForce(now) || !p.isSame(r):
		return nil
	}
	return provenBy(o, p.Account.Account)
}

// inForce: an order with a certificate has proven what it had to.
func (p Proof) inForce(now time.Time) bool {
	switch OrderState(p.Order, now) {
	case rfc8555.StateProcessing:
		return checkAuthorizations(p.Order, now) == nil
	case rfc8555.StateValid:
		return true
	}
	return false
}

func (p Proof) isSame(r request.Request) bool {
	if !p.NeedsEndpoint() {
		return checkContent(p.Order, p.Account.Account, r, p.Account.ServiceAccountUID) == nil
	}
	if p.Endpoint == nil || p.Endpoint.Name() != p.Order.Spec.Endpoint {
		return false
	}
	profile := p.Endpoint.Profile(p.Order.Spec.Profile)
	return profile != nil && CheckRequest(p.Order, p.Account.Account, profile, r, p.Account.ServiceAccountUID) == nil
}

func provenBy(o *order, account *v1alpha1.AcmeAccount) *v1alpha1.ProvenOrder {
	proven := &v1alpha1.ProvenOrder{Endpoint: o.Spec.Endpoint, Account: o.Spec.Account}
	if key := account.Spec.ExternalKey; key != nil {
		proven.ExternalKey = key.Namespace + "/" + key.Name
	}
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		id := v1alpha1.ProvenIdentifier{Type: a.Identifier.Type, Value: a.Identifier.Value, Wildcard: a.Wildcard, Origin: a.Origin}
		for _, c := range a.Challenges {
			if c.State != rfc8555.StateValid {
				continue
			}
			id.Validated = c.Validated.DeepCopy()
			if a.Origin != v1alpha1.AcmeOriginPreauthorized {
				id.Method = c.Type
			}
		}
		proven.Identifiers = append(proven.Identifiers, id)
	}
	return proven
}
