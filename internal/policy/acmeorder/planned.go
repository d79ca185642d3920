package acmeorder

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/request"
)

// Planned is an order whose request is not made yet, or a new order.
type Planned struct {
	// Order contains at least its spec. Without a certificate request, only its names are
	// known.
	Order   *v1alpha1.AcmeOrder
	Account *v1alpha1.AcmeAccount
	Profile *v1alpha1.AcmeProfile
}

// Planned returns the new order, as far as policies can decide about it.
func (a *Admitted) Planned() Planned {
	o := &order{Spec: v1alpha1.AcmeOrderSpec{
		Endpoint: a.endpoint.Name(), Account: a.facts.Account.Name, Profile: a.profile.Name, NotAfter: wholeOrNil(a.asked.NotAfter),
	}}
	o.Namespace = a.facts.Account.Spec.ServiceAccount.Namespace
	for _, id := range a.asked.Identifiers {
		o.Spec.Identifiers = append(o.Spec.Identifiers, v1alpha1.AcmeIdentifier(id))
	}
	return Planned{o, a.facts.Account, a.profile}
}

// Names returns the DNS names and the addresses of the order, in their order.
func (p Planned) Names() (dns, ips []string) {
	for _, id := range p.Order.Spec.Identifiers {
		if id.Type == rfc8555.IdentifierIP {
			ips = append(ips, id.Value)
		} else {
			dns = append(dns, id.Value)
		}
	}
	return dns, ips
}

// Proven returns what the order will prove about its request.
func (p Planned) Proven() *v1alpha1.ProvenOrder { return provenBy(p.Order, p.Account) }

// Request returns the request that will be made, as its requester makes it.
func (p Planned) Request(now time.Time) (request.Request, error) {
	lifetime, problem := Lifetime(p.Order, p.Profile, now)
	if problem != nil {
		return request.Request{}, problem
	}
	who := request.ServiceAccount(p.Account.Spec.ServiceAccount.Namespace, p.Account.Spec.ServiceAccount.Name)
	var r request.Request
	if p.Profile.Signer != nil {
		csr, err := SigningRequest(p.Order, p.Account, p.Profile, lifetime)
		if err != nil {
			return r, err
		}
		csr.Spec.Username, csr.Spec.Groups = who.Username, who.Groups
		r = request.FromCSR(csr)
	} else {
		cr, err := CertificateRequest(p.Order, p.Account, p.Profile, lifetime)
		if err != nil {
			return r, err
		}
		cr.Spec.Username, cr.Spec.Groups = who.Username, who.Groups
		r = request.FromCertificateRequest(cr)
	}
	r.Created = now
	return r, nil
}

// Objection is a violation of a certificate policy by a request.
type Objection struct {
	Policy, Message string
	// Name is the name or the address that it is about; nil if it is about something
	// else.
	Name *rfc8555.Identifier
}

// AreAboutNames reports whether policies object to an order for its names, whatever else
// its certificate request has: each of them to one at least.
func AreAboutNames(objections []Objection) bool {
	named := map[string]bool{}
	for _, o := range objections {
		named[o.Policy] = named[o.Policy] || o.Name != nil
	}
	for _, is := range named {
		if !is {
			return false
		}
	}
	return len(named) > 0
}

// RefusedByPolicy returns the problem of an order that certificate policies forbid: it
// lists the names that are forbidden, and contains message if the names are not the
// reason.
func (p Planned) RefusedByPolicy(objections []Objection, message string) *rfc8555.Problem {
	if !AreAboutNames(objections) {
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "denied: %s", message)
	}
	var parts []rfc8555.Subproblem
	for _, o := range objections {
		if o.Name != nil {
			parts = append(parts, rfc8555.Subproblem{Type: rfc8555.Namespace + rfc8555.ProblemRejectedIdentifier, Detail: bounded(o.Message), Identifier: *o.Name})
		}
	}
	return compound(parts, len(p.Order.Spec.Identifiers))
}
