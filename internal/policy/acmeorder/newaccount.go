package acmeorder

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// KeyStanding is the relation of a stored account key to its account.
type KeyStanding int

const (
	// KeyInForce: requests are signed with it.
	KeyInForce KeyStanding = iota
	// KeyRetired: the account got another key. It is not accepted again.
	KeyRetired
	// KeyDebris: the server that created the key stopped before the account referred to
	// it. The key can be replaced if its UID is still the same.
	KeyDebris
	// KeyUnsettled: it may be that its account is being written.
	KeyUnsettled
)

// settledAfter is how long after the creation of a key its account has been
// written, or never will be.
const settledAfter = time.Minute

// StandingOfKey returns the standing of a key. account is the account that the key names,
// nil if it does not exist; current is the account's key in force, nil if it is not known.
func StandingOfKey(key *v1alpha1.AcmeAccountKey, account *v1alpha1.AcmeAccount, current *v1alpha1.AcmeAccountKey, now time.Time) KeyStanding {
	made := key.CreationTimestamp
	switch {
	case key.Spec.Retired != nil:
		return KeyRetired
	case account != nil && account.Status.Key == key.Name:
		return KeyInForce
	case account != nil && current != nil && made.Before(&current.CreationTimestamp):
		return KeyRetired // and could not be marked
	case now.Before(made.Add(settledAfter)):
		return KeyUnsettled
	case account != nil && account.Status.Key != "" && current == nil:
		return KeyRetired
	}
	return KeyDebris
}

// Binding is the external account binding of a newAccount request.
type Binding int

const (
	// BindingAbsent: there is none.
	BindingAbsent Binding = iota
	// BindingWrong: the binding does not verify, for whatever cause.
	BindingWrong
	// BindingGood: its signature is that of an external key.
	BindingGood
)

// NewAccount holds the facts about a newAccount request (RFC 8555 section 7.3) with a
// valid signature.
type NewAccount struct {
	// Key is the stored account key, with its standing and account; nil if the key
	// is new.
	Key      *v1alpha1.AcmeAccountKey
	Standing KeyStanding
	Existing AccountFacts

	OnlyReturnExisting bool
	// Limited is the problem of a client over a limit.
	Limited  *rfc8555.Problem
	Agreed   bool
	Contacts []string
	Binding  Binding
	// ExternalKey is the key of a valid binding.
	ExternalKey *ExternalKey
}

// NewAccountDecision is the outcome of a newAccount request that is not refused.
type NewAccountDecision struct {
	// Existing is the account that the key has.
	Existing *v1alpha1.AcmeAccount
	// Replace is the UID of debris that has to be deleted first.
	Replace types.UID
	// Spec and Status describe the new account; the caller adds the name of the key.
	Spec   v1alpha1.AcmeAccountSpec
	Status v1alpha1.AcmeAccountStatus
}

// AdmitAccount decides about a newAccount request. The caller checks the rights of the
// ServiceAccount and the uses of the external key.
func AdmitAccount(n NewAccount, e *Endpoint, now time.Time) (NewAccountDecision, *rfc8555.Problem) {
	none, spec := NewAccountDecision{}, e.Spec()
	if n.Key != nil {
		switch n.Standing {
		case KeyInForce:
			return NewAccountDecision{Existing: n.Existing.Account}, n.Existing.Problem()
		case KeyRetired:
			if n.OnlyReturnExisting { // no account has the key (RFC 8555 section 7.3.1)
				return none, rfc8555.NewProblem(400, rfc8555.ProblemAccountDoesNotExist, "there is no account with this key")
			}
			return none, rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the account has replaced this key")
		case KeyUnsettled:
			p := rfc8555.NewProblem(503, rfc8555.ProblemServerInternal, "the account is being made")
			p.RetryAfter = now.Add(time.Second)
			return none, p
		}
	}
	switch {
	case n.OnlyReturnExisting:
		return none, rfc8555.NewProblem(400, rfc8555.ProblemAccountDoesNotExist, "there is no account with this key")
	case n.Limited != nil:
		return none, n.Limited
	case spec.Accounts.TermsOfService != "" && !n.Agreed:
		return none, newTerms(spec.Accounts.TermsOfService)
	}
	if p := CheckContacts(n.Contacts, spec.Accounts.ContactRequired); p != nil {
		return none, p
	}
	if p := checkBinding(n, e, now); p != nil {
		return none, p
	}
	d := NewAccountDecision{
		Spec:   v1alpha1.AcmeAccountSpec{Endpoint: e.Name()},
		Status: v1alpha1.AcmeAccountStatus{State: v1alpha1.AcmeAccountValid, Contacts: n.Contacts, LastSeen: day(now)},
	}
	if n.Key != nil {
		d.Replace = n.Key.UID
	}
	if terms := spec.Accounts.TermsOfService; terms != "" {
		d.Status.Agreed = &v1alpha1.AcmeAgreement{URL: terms, Time: *whole(now)}
	}
	if n.Binding == BindingGood {
		d.Spec.ServiceAccount, d.Spec.ExternalKey = n.ExternalKey.identity()
	} else {
		d.Spec.ServiceAccount = *spec.Accounts.ServiceAccount
	}
	return d, nil
}

// checkBinding returns one answer for all causes, so that a client learns nothing about
// other clients' keys.
func checkBinding(n NewAccount, e *Endpoint, now time.Time) *rfc8555.Problem {
	switch {
	case n.Binding == BindingAbsent && (e.Spec().Accounts.Admission == v1alpha1.AcmeAdmissionExternalKey || e.Spec().Accounts.ServiceAccount == nil):
		return rfc8555.NewProblem(403, rfc8555.ProblemExternalAccountRequired, "accounts need an external account binding")
	case n.Binding == BindingAbsent:
		return nil
	case n.Binding == BindingWrong || n.ExternalKey == nil || !n.ExternalKey.Admits(e, now):
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the external account binding is not valid")
	}
	return nil
}

// Admits reports whether accounts can be made with the key.
func (k *ExternalKey) Admits(e *Endpoint, now time.Time) bool {
	spec := &k.object.Spec
	return spec.Endpoint == e.Name() && !spec.Revoked && k.object.DeletionTimestamp == nil &&
		(spec.Expires == nil || now.Before(spec.Expires.Time)) &&
		(spec.MaxAccounts == 0 || k.object.Status.Accounts < spec.MaxAccounts)
}

func (k *ExternalKey) identity() (v1alpha1.AcmeServiceAccount, *v1alpha1.AcmeExternalKeyReference) {
	o := k.object
	return v1alpha1.AcmeServiceAccount{Namespace: o.Namespace, Name: o.Spec.ServiceAccount},
		&v1alpha1.AcmeExternalKeyReference{Namespace: o.Namespace, Name: o.Name, UID: o.UID, RequireAlways: o.Spec.RequireAlways}
}
