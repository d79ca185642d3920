package acmeorder

import (
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// AccountFacts is what decides whether an account can act.
type AccountFacts struct {
	Account *v1alpha1.AcmeAccount
	// ExternalKey is the stored key of the name in the account; nil if there is
	// none.
	ExternalKey *ExternalKey
	// ServiceAccountUID is that of the ServiceAccount as whom the account acts,
	// empty if it is not known. ServiceAccountGone is set if there is none.
	ServiceAccountUID  string
	ServiceAccountGone bool
}

// Problem returns why the account is not in force, nil if it is.
func (f AccountFacts) Problem() *rfc8555.Problem {
	a := f.Account
	switch {
	case a.Status.State == v1alpha1.AcmeAccountDeactivated:
		return newProblem(401, rfc8555.ProblemUnauthorized, "the account is deactivated") // RFC 8555 section 7.3.6
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
	return newProblem(403, rfc8555.ProblemUnauthorized, "account revoked%s", why)
}

// keyEnded reports whether the account has ended with its external key. Of a key
// that is gone, the account says whether it is needed.
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

// key returns the external key of the account, nil if it is gone. One that was made
// anew with the same name is another.
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
	p := newProblem(403, rfc8555.ProblemUserActionRequired, "an administrator has to approve the account %s", a.Name)
	p.Instance = help
	return p
}

// lateRenewal is how long before its end a certificate can be renewed without
// agreement to new terms.
const lateRenewal = 30 * 24 * time.Hour

// Terms returns the problem of orders of an account that has not agreed to the
// terms of service as they are now, nil if it has. renewed is the end of the
// certificate that is renewed, zero if none is.
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
	p := newProblem(403, rfc8555.ProblemUserActionRequired, "agree to the terms of service: %s", terms)
	p.Instance, p.TermsOfService = terms, terms
	return p
}

// The limits for contacts.
const (
	maxContacts = 10
	maxAddress  = 254
)

// CheckContacts checks the contacts of an account (RFC 8555 section 7.3).
func CheckContacts(contacts []string, required bool) *rfc8555.Problem {
	switch {
	case len(contacts) > maxContacts:
		return newProblem(400, rfc8555.ProblemInvalidContact, "%d contacts are more than %d", len(contacts), maxContacts)
	case required && len(contacts) == 0:
		return newProblem(400, rfc8555.ProblemInvalidContact, "a contact is required")
	}
	for _, contact := range contacts {
		if p := checkContact(contact); p != nil {
			return p
		}
	}
	return nil
}

func checkContact(contact string) *rfc8555.Problem {
	scheme, address, found := strings.Cut(contact, ":")
	if !found || !strings.EqualFold(scheme, "mailto") {
		return newProblem(400, rfc8555.ProblemUnsupportedContact, "the contact %s is not a mailto URL", quote(contact))
	}
	refuse := func(why string) *rfc8555.Problem {
		return newProblem(400, rfc8555.ProblemInvalidContact, "the contact %s %s", quote(contact), why)
	}
	if strings.ContainsAny(address, "?#") {
		return refuse("has header fields: give the address alone")
	}
	decoded, err := url.PathUnescape(address)
	switch {
	case err != nil:
		return refuse("cannot be decoded")
	case len(decoded) > maxAddress || len(address) > maxAddress:
		return refuse("is longer than 254 characters")
	case !isOneAddress(decoded):
		return refuse("is not exactly one e-mail address in ASCII")
	}
	return nil
}

// isOneAddress: separators, quotes and white space are refused, however they are
// written.
func isOneAddress(address string) bool {
	for _, c := range []byte(address) {
		if c <= ' ' || c > '~' || strings.IndexByte(`,;:<>()[]"\`, c) >= 0 {
			return false
		}
	}
	local, domain, _ := strings.Cut(address, "@")
	return local != "" && domain != "" && !strings.Contains(domain, "@") && !strings.HasPrefix(domain, ".") && !strings.HasSuffix(domain, ".")
}

// AccountUpdate is what a client wants to change about its account (RFC 8555
// sections 7.3.2 and 7.3.6). What is nil or empty stays.
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
		return nil, newProblem(400, rfc8555.ProblemMalformed, "a client can set the status of its account to deactivated only, not to %s", quote(u.Status))
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

// KeyStanding is what a stored account key is to its account.
type KeyStanding int

const (
	// KeyInForce: requests are signed with it.
	KeyInForce KeyStanding = iota
	// KeyRetired: the account got another key. It is not accepted again.
	KeyRetired
	// KeyDebris: whoever made it was stopped before the account had it. It can be
	// replaced, if its UID is still the same.
	KeyDebris
	// KeyUnsettled: it may be that its account is being written.
	KeyUnsettled
)

// settledAfter is how long after the creation of a key its account has been
// written, or never will be.
const settledAfter = time.Minute

// StandingOfKey returns what a key is. account is the one that it names, nil if
// there is none; current is the account's key in force, nil if it is not known.
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
	// BindingWrong: it is not one of ours, for any cause.
	BindingWrong
	// BindingGood: its signature is that of an external key.
	BindingGood
)

// NewAccount is what is known of a newAccount request (RFC 8555 section 7.3) whose
// signature is good.
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
	// ExternalKey is that of a good binding.
	ExternalKey *ExternalKey
}

// NewAccountDecision says what becomes of a newAccount request that is not refused.
type NewAccountDecision struct {
	// Existing is the account that the key has.
	Existing *v1alpha1.AcmeAccount
	// Replace is the UID of debris that has to be deleted first.
	Replace types.UID
	// Spec and Status are those of the new account; the key's name is to be added.
	Spec   v1alpha1.AcmeAccountSpec
	Status v1alpha1.AcmeAccountStatus
}

// AdmitAccount decides about a newAccount request. What the ServiceAccount may do,
// and the uses of the external key, are left to the caller.
func AdmitAccount(n NewAccount, e *Endpoint, now time.Time) (NewAccountDecision, *rfc8555.Problem) {
	none, spec := NewAccountDecision{}, e.Spec()
	if n.Key != nil {
		switch n.Standing {
		case KeyInForce:
			return NewAccountDecision{Existing: n.Existing.Account}, n.Existing.Problem()
		case KeyRetired:
			return none, newProblem(403, rfc8555.ProblemUnauthorized, "the account has replaced this key")
		case KeyUnsettled:
			p := newProblem(503, rfc8555.ProblemServerInternal, "the account is being made")
			p.RetryAfter = now.Add(time.Second)
			return none, p
		}
	}
	switch {
	case n.OnlyReturnExisting:
		return none, newProblem(400, rfc8555.ProblemAccountDoesNotExist, "there is no account with this key")
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

// checkBinding has one answer for all causes: a client learns nothing about the
// keys of others.
func checkBinding(n NewAccount, e *Endpoint, now time.Time) *rfc8555.Problem {
	switch {
	case n.Binding == BindingAbsent && (e.Spec().Accounts.Admission == v1alpha1.AcmeAdmissionExternalKey || e.Spec().Accounts.ServiceAccount == nil):
		return newProblem(403, rfc8555.ProblemExternalAccountRequired, "accounts need an external account binding")
	case n.Binding == BindingAbsent:
		return nil
	case n.Binding == BindingWrong || n.ExternalKey == nil || !n.ExternalKey.Admits(e, now):
		return newProblem(403, rfc8555.ProblemUnauthorized, "the external account binding is not valid")
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
