package acmeorder

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// NewOrder is the order that a client requests (RFC 8555 section 7.4). Its identifiers are
// normalised and in the order of the request; duplicates are ignored.
type NewOrder struct {
	Identifiers         []rfc8555.Identifier
	Profile             string
	NotBefore, NotAfter time.Time
	// Replaces is the CertID of the certificate that is renewed (RFC 9773 section
	// 5); empty if none is.
	Replaces string
	// Replaced is the order of the certificate in Replaces, nil if there is none.
	Replaced *v1alpha1.AcmeOrder
	// Replacement is the order that already replaces it, nil if there is none.
	Replacement *v1alpha1.AcmeOrder
	// Address is from where the client orders.
	Address string
}

// OrderFacts are the other facts that the decision about a new order depends on.
type OrderFacts struct {
	AccountFacts
	// Help is the URL of a page about accounts that wait for their approval.
	Help string
	// Orders are the stored ones of the account.
	Orders []*v1alpha1.AcmeOrder
	// Limited is the problem of a client over a limit that is not counted from
	// orders.
	Limited *rfc8555.Problem
}

// Admitted is a new order that is permitted.
type Admitted struct {
	endpoint *Endpoint
	facts    OrderFacts
	asked    NewOrder
	profile  *v1alpha1.AcmeProfile
	// Reuse is an order of the account that the client is given instead of a new
	// one.
	Reuse *v1alpha1.AcmeOrder
}

// Profile returns the profile of the order.
func (a *Admitted) Profile() *v1alpha1.AcmeProfile { return a.profile }

// AdmitOrder decides about a new order. The first check that fails determines the problem
// for the client.
func (e *Endpoint) AdmitOrder(n NewOrder, f OrderFacts, now time.Time) (*Admitted, *rfc8555.Problem) {
	n.Identifiers = unique(n.Identifiers)
	a := &Admitted{endpoint: e, facts: f, asked: n}
	spec := e.Spec()
	for _, check := range []func() *rfc8555.Problem{
		f.Problem,
		func() *rfc8555.Problem { return f.Waiting(spec, f.Help) },
		func() *rfc8555.Problem { return f.Terms(spec, renewedEnd(n, f.Account), now) },
		func() *rfc8555.Problem { return checkCount(len(n.Identifiers), int(spec.Identifiers.MaxPerOrder)) },
		func() (p *rfc8555.Problem) { a.profile, p = e.chooseProfile(n.Profile, f.key()); return p },
		func() *rfc8555.Problem { return checkDates(n, a.profile, now) },
		func() *rfc8555.Problem { return checkReplaces(n, f.Account, now) },
		func() *rfc8555.Problem { return e.CheckIdentifiers(n.Identifiers, f.AccountFacts, a.profile.Name, now) },
		func() *rfc8555.Problem { return f.Limited },
		func() *rfc8555.Problem { return CheckOrderLimits(spec, f.Orders, n.Replaces != "", now) },
		func() *rfc8555.Problem { return CheckFailedValidations(spec, f.Orders, n.Identifiers, now) },
	} {
		if p := check(); p != nil {
			return nil, p
		}
	}
	a.Reuse = a.reusable(now)
	return a, nil
}

func unique(ids []rfc8555.Identifier) []rfc8555.Identifier {
	var list []rfc8555.Identifier
	seen := map[rfc8555.Identifier]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			list = append(list, id)
		}
	}
	return list
}

func checkCount(n, most int) *rfc8555.Problem {
	switch {
	case n == 0:
		return rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "an order needs identifiers")
	case n > most:
		return rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "%d identifiers are more than the %d that an order may have", n, most)
	}
	return nil
}

// chooseProfile returns the profile that a client names, by default the first
// (draft-ietf-acme-profiles section 4). With an external key that has profiles, the
// default is the first of the endpoint's that the key has.
func (e *Endpoint) chooseProfile(name string, key *ExternalKey) (*v1alpha1.AcmeProfile, *rfc8555.Problem) {
	if name != "" {
		return e.Profile(name), e.checkProfile(name, key)
	}
	for i := range e.object.Spec.Profiles {
		if p := &e.object.Spec.Profiles[i]; e.checkProfile(p.Name, key) == nil {
			return p, nil
		}
	}
	return nil, rfc8555.NewProblem(400, rfc8555.ProblemInvalidProfile, "the external account key has none of the profiles")
}

func (e *Endpoint) checkProfile(name string, key *ExternalKey) *rfc8555.Problem {
	switch {
	case e.Profile(name) == nil:
		return rfc8555.NewProblem(400, rfc8555.ProblemInvalidProfile, "there is no profile %s", rfc8555.Quote(name))
	case key != nil && len(key.object.Spec.Profiles) > 0 && !slices.Contains(key.object.Spec.Profiles, name):
		return rfc8555.NewProblem(400, rfc8555.ProblemInvalidProfile, "the profile %s is not allowed for the external account key", rfc8555.Quote(name))
	}
	return nil
}

// startTolerance is how far from now the requested notBefore may be: requests to signers
// contain a lifetime, not a start.
const startTolerance = 5 * time.Minute

func checkDates(n NewOrder, profile *v1alpha1.AcmeProfile, now time.Time) *rfc8555.Problem {
	refuse := func(format string, args ...any) *rfc8555.Problem {
		return rfc8555.NewProblem(400, rfc8555.ProblemMalformed, format, args...)
	}
	if n.NotBefore.IsZero() && n.NotAfter.IsZero() {
		return nil
	}
	if honours := profile.Lifetime.FromOrder; honours != nil && !*honours {
		return refuse("notBefore and notAfter are not accepted for the profile %s", profile.Name)
	}
	if !n.NotBefore.IsZero() && n.NotBefore.Sub(now).Abs() > startTolerance {
		return refuse("notBefore must be within 5 minutes from now")
	}
	if n.NotAfter.IsZero() {
		return nil
	}
	switch lifetime := n.NotAfter.Sub(now); {
	case lifetime <= shortest(profile):
		return refuse("notAfter is too early: certificates are valid for more than %s", hours(shortest(profile)))
	case lifetime > profile.Lifetime.Maximum.Duration:
		return refuse("notAfter is too late: certificates of the profile %s are valid for at most %s", profile.Name, hours(profile.Lifetime.Maximum.Duration))
	}
	return nil
}

// reuseBefore is how long before its end an order is not given to a client again.
const reuseBefore = time.Hour

// reusable returns an order of the account that asks for the same and is not finalized. An
// order that is processing is not reused: clients expect to prove something, or to
// finalize.
func (a *Admitted) reusable(now time.Time) *v1alpha1.AcmeOrder {
	if a.asked.Replaces != "" {
		return nil
	}
	want := map[v1alpha1.AcmeIdentifier]bool{}
	for _, id := range a.asked.Identifiers {
		want[v1alpha1.AcmeIdentifier(id)] = true
	}
	for _, o := range a.facts.Orders {
		state := OrderState(o, now)
		switch {
		case state != rfc8555.StatePending && state != rfc8555.StateReady, len(o.Status.Authorizations) == 0:
		case o.Spec.Account != a.facts.Account.Name, o.Spec.Endpoint != a.endpoint.Name(), o.Spec.Profile != a.profile.Name, o.Spec.Replaces != "":
		case !sameTime(o.Spec.NotBefore, a.asked.NotBefore), !sameTime(o.Spec.NotAfter, a.asked.NotAfter):
		case o.Status.Expires == nil, o.Status.Expires.Sub(now) < reuseBefore:
		case len(o.Spec.Identifiers) != len(want), slices.ContainsFunc(o.Spec.Identifiers, func(id v1alpha1.AcmeIdentifier) bool { return !want[id] }):
		case a.endpoint.CheckAgain(o, a.facts.AccountFacts, now) != nil:
		default:
			return o
		}
	}
	return nil
}

func sameTime(stored *metav1.Time, asked time.Time) bool {
	if stored == nil {
		return asked.IsZero()
	}
	return stored.Equal(&metav1.Time{Time: asked.Truncate(time.Second)})
}

// Build returns the new order with a name. Its tokens follow from seed, which is random.
func (a *Admitted) Build(name, seed string, now time.Time) *v1alpha1.AcmeOrder {
	account, spec := a.facts.Account, a.endpoint.Spec()
	o := &v1alpha1.AcmeOrder{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: account.Spec.ServiceAccount.Namespace,
			Labels: map[string]string{v1alpha1.AcmeEndpointLabel: a.endpoint.Name(), v1alpha1.AcmeAccountLabel: account.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "AcmeAccount", Name: account.Name, UID: account.UID,
			}},
		},
		Spec: v1alpha1.AcmeOrderSpec{
			Endpoint: a.endpoint.Name(), Account: account.Name, Profile: a.profile.Name, Replaces: a.asked.Replaces, Address: a.asked.Address,
			NotBefore: wholeOrNil(a.asked.NotBefore), NotAfter: wholeOrNil(a.asked.NotAfter),
		},
		Status: v1alpha1.AcmeOrderStatus{Expires: whole(now.Add(spec.Orders.PendingFor.Duration)), TokenSeed: seed},
	}
	proven := a.proven(now)
	for _, id := range a.asked.Identifiers {
		o.Spec.Identifiers = append(o.Spec.Identifiers, v1alpha1.AcmeIdentifier(id))
		o.Status.Authorizations = append(o.Status.Authorizations, a.authorize(id, proven[id], now))
	}
	return o
}

func wholeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return whole(t)
}

// authorize returns the authorization for an identifier: valid if the external key
// or an authorization of an earlier order proves control, otherwise with the
// challenges that are offered.
func (a *Admitted) authorize(id rfc8555.Identifier, earlier *authorization, now time.Time) authorization {
	each, _ := takeApart(id)
	orders := &a.endpoint.Spec().Orders
	of := authorization{Identifier: v1alpha1.AcmeIdentifier(id), Wildcard: each.wildcard}
	if each.wildcard {
		of.Identifier.Value = each.name
	}
	kinds := a.endpoint.offered(each)
	if a.facts.key().preauthorizes(each) {
		kind := append(kinds, possible(each)...)[0]
		of.Origin, of.State, of.Expires = v1alpha1.AcmeOriginPreauthorized, rfc8555.StateValid, whole(now.Add(orders.AuthorizationValidFor.Duration))
		of.Challenges = []v1alpha1.AcmeChallenge{{Type: kind, State: rfc8555.StateValid, Validated: whole(now)}}
		return of
	}
	if earlier != nil {
		of.Origin, of.State, of.Expires = v1alpha1.AcmeOriginReused, rfc8555.StateValid, earlier.Expires.DeepCopy()
		for _, c := range earlier.Challenges {
			if c.State == rfc8555.StateValid {
				c = *c.DeepCopy()
				c.Token = "" // that of an old order may be gone
				of.Challenges = append(of.Challenges, c)
			}
		}
		return of
	}
	of.Origin, of.State, of.Expires = v1alpha1.AcmeOriginChallenge, rfc8555.StatePending, whole(now.Add(orders.PendingFor.Duration))
	for _, kind := range kinds {
		of.Challenges = append(of.Challenges, v1alpha1.AcmeChallenge{Type: kind, State: rfc8555.StatePending})
	}
	return of
}

// proven returns the valid authorizations of earlier orders of the account, if the
// endpoint reuses them: for each identifier, the one that is valid longest.
func (a *Admitted) proven(now time.Time) map[rfc8555.Identifier]*authorization {
	period := a.endpoint.Spec().Orders.ReuseValidation.Duration
	best := map[rfc8555.Identifier]*authorization{}
	if period <= 0 {
		return best
	}
	for _, o := range a.facts.Orders {
		if o.Spec.Account != a.facts.Account.Name || o.Spec.Endpoint != a.endpoint.Name() {
			continue
		}
		for i := range o.Status.Authorizations {
			earlier := &o.Status.Authorizations[i]
			id := OrderedIdentifier(earlier)
			if isReusable(earlier, period, now) && (best[id] == nil || best[id].Expires.Before(earlier.Expires)) {
				best[id] = earlier
			}
		}
	}
	return best
}

// isReusable: what is reused was proven by a challenge, within the period.
func isReusable(earlier *authorization, period time.Duration, now time.Time) bool {
	if earlier.Origin != v1alpha1.AcmeOriginChallenge || AuthorizationState(earlier, now) != rfc8555.StateValid ||
		earlier.Expires == nil || !now.Before(earlier.Expires.Time) {
		return false
	}
	return slices.ContainsFunc(earlier.Challenges, func(c v1alpha1.AcmeChallenge) bool {
		return c.State == rfc8555.StateValid && c.Validated != nil && now.Sub(c.Validated.Time) <= period
	})
}
