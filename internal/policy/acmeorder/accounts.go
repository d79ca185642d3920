package acmeorder

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// AccountFacts are the facts that decide whether an account can act.
type AccountFacts struct {
	Account *v1alpha1.AcmeAccount
	// ExternalKey is the stored key of the name in the account; nil if there is
	// none.
	ExternalKey *ExternalKey
	// ServiceAccountUID is the UID of the ServiceAccount that the account acts as, empty
	// if it is not known. ServiceAccountGone is set if the ServiceAccount does not exist.
	ServiceAccountUID  string
	ServiceAccountGone bool
}

// Problem returns why the account is not in force, nil if it is.
func (f AccountFacts) Problem() *rfc8555.Problem {
	a := f.Account
	switch {
	case a.Status.State == v1alpha1.AcmeAccountDeactivated:
		return rfc8555.NewProblem(401, rfc8555.ProblemUnauthorized, "the account is deactivated") // RFC 8555 section 7.3.6
	case a.Status.State == v1alpha1.AcmeAccountRevoked, a.Spec.Decision == v1alpha1.AcmeDecisionRevoked:
		return revokedAccount("")
	case f.keyEnded():
		return revokedAccount(": its external account key has ended")
	case f.ServiceAccountGone:
		return revokedAccount(": its ServiceAccount is gone")
	}
	return nil
}

func revokedAccount(why string) *rfc8555.Problem {
	return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "account revoked%s", why)
}

// keyEnded reports whether the account has ended with its external key. If the key is
// gone, the spec of the account decides whether it is needed.
func (f AccountFacts) keyEnded() bool {
	of := f.Account.Spec.ExternalKey
	if of == nil {
		return false
	}
	key := f.key()
	if key == nil {
		return of.RequireAlways == nil || *of.RequireAlways
	}
	always := key.object.Spec.RequireAlways
	return key.object.Spec.Revoked && (always == nil || *always)
}

// key returns the external key of the account, nil if it is gone. A key created again with
// the same name is a different key.
func (f AccountFacts) key() *ExternalKey {
	of, key := f.Account.Spec.ExternalKey, f.ExternalKey
	if of == nil || key == nil || key.object.UID != of.UID {
		return nil
	}
	return key
}

// Waiting returns the problem of orders of an account that a person has to approve
// first, nil if it does not wait. help is the URL of a page about that.
func (f AccountFacts) Waiting(e *v1alpha1.AcmeEndpointSpec, help string) *rfc8555.Problem {
	a := f.Account
	if e.Accounts.Admission != v1alpha1.AcmeAdmissionApproval || a.Spec.ExternalKey != nil || a.Spec.Decision == v1alpha1.AcmeDecisionApproved {
		return nil
	}
	p := rfc8555.NewProblem(403, rfc8555.ProblemUserActionRequired, "an administrator has to approve the account %s", a.Name)
	p.Instance = help
	return p
}

// lateRenewal is how long before its end a certificate can be renewed without
// agreement to new terms.
const lateRenewal = 30 * 24 * time.Hour

// Terms returns the problem of orders of an account that has not agreed to the current
// terms of service, nil if it has. renewed is the end of the certificate that is renewed,
// zero if none is.
func (f AccountFacts) Terms(e *v1alpha1.AcmeEndpointSpec, renewed, now time.Time) *rfc8555.Problem {
	terms, agreed := e.Accounts.TermsOfService, f.Account.Status.Agreed
	switch {
	case terms == "", agreed != nil && agreed.URL == terms:
		return nil
	case !renewed.IsZero() && now.Before(renewed) && renewed.Sub(now) <= lateRenewal:
		return nil
	}
	return newTerms(terms)
}

func newTerms(terms string) *rfc8555.Problem {
	p := rfc8555.NewProblem(403, rfc8555.ProblemUserActionRequired, "agree to the terms of service: %s", terms)
	p.Instance, p.TermsOfService = terms, terms
	return p
}

// AccountUpdate contains the changes that a client requests for its account (RFC 8555
// sections 7.3.2 and 7.3.6). Fields that are nil or empty do not change.
type AccountUpdate struct {
	Contacts *[]string
	Status   string
	Agreed   bool
}

// UpdateAccount returns the changed status of an account that is in force; nil if
// nothing changes.
func UpdateAccount(a *v1alpha1.AcmeAccount, u AccountUpdate, e *v1alpha1.AcmeEndpointSpec, now time.Time) (*v1alpha1.AcmeAccountStatus, *rfc8555.Problem) {
	s, changed := a.Status.DeepCopy(), false
	switch u.Status {
	case "", string(v1alpha1.AcmeAccountValid):
	case string(v1alpha1.AcmeAccountDeactivated):
		s.State, s.Ended, changed = v1alpha1.AcmeAccountDeactivated, whole(now), true
		return s, nil // nothing else counts
	default:
		return nil, rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "a client can set the status of its account to deactivated only, not to %s", rfc8555.Quote(u.Status))
	}
	if u.Contacts != nil {
		if p := CheckContacts(*u.Contacts, e.Accounts.ContactRequired); p != nil {
			return nil, p
		}
		s.Contacts, changed = append([]string(nil), *u.Contacts...), true
	}
	if terms := e.Accounts.TermsOfService; u.Agreed && terms != "" && (s.Agreed == nil || s.Agreed.URL != terms) {
		s.Agreed, changed = &v1alpha1.AcmeAgreement{URL: terms, Time: *whole(now)}, true
	}
	if !changed {
		return nil, nil
	}
	return s, nil
}
