package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
)

// plan lists the Challenges that an Order needs.
type plan struct {
	create  []Required
	keep    []*acmev1.Challenge
	missing *SolverError
	// failed is a Challenge that has failed for good.
	failed *acmev1.Challenge
}

// validate returns the next step of an Order whose names are not all validated.
func (s Situation) validate() Step {
	var p plan
	for _, a := range s.Order.Status.Authorizations {
		now := s.current(a)
		switch {
		case now.InitialState == acmev1.Valid:
		case IsFailure(now.InitialState):
			return s.end(acmev1.Invalid, fmt.Sprintf("The CA says that the authorization for %s is %s", Domain(now), now.InitialState))
		default:
			p.add(s, now)
		}
	}
	if p.failed != nil {
		return s.end(acmev1.Invalid, failureOf(p.failed))
	}
	return s.carryOut(p)
}

// current returns the newest view of an authorization. Its state and challenges in the
// status cannot change.
func (s Situation) current(a acmev1.ACMEAuthorization) acmev1.ACMEAuthorization {
	if newer, ok := s.Memory.Authorizations[a.URL]; ok {
		return Authorization(a.URL, newer)
	}
	return a
}

// add adds what an authorization needs. A Challenge that has succeeded, or that
// the CA is validating, is kept even if the issuer has another solver by now.
func (p *plan) add(s Situation, a acmev1.ACMEAuthorization) {
	existing := of(s.Challenges, a.URL)
	if i := slices.IndexFunc(existing, underWay); i >= 0 {
		p.keep = append(p.keep, existing[i])
		return
	}
	if i := slices.IndexFunc(existing, refused); i >= 0 {
		p.failed = existing[i]
		return
	}
	needs, err := Require(s.Order, s.Issuer, a)
	if err != nil {
		p.lack(existing, asSolverError(err, needs.Domain))
		return
	}
	for _, c := range existing {
		switch {
		case c.Name != needs.Challenge.Name:
		case IsFailure(c.Status.State):
			p.failed = c
			return
		default:
			p.keep = append(p.keep, c)
			return
		}
	}
	p.create = append(p.create, needs)
}

// lack adds an authorization that has no solver. A Challenge of an earlier solver
// continues.
func (p *plan) lack(existing []*acmev1.Challenge, why *SolverError) {
	for _, c := range existing {
		if IsFailure(c.Status.State) {
			p.failed = c
			return
		}
		p.keep = append(p.keep, c)
	}
	if p.missing == nil {
		p.missing = why
	}
}

// of returns the Challenges of an authorization.
func of(challenges []*acmev1.Challenge, authorization string) []*acmev1.Challenge {
	var all []*acmev1.Challenge
	for _, c := range challenges {
		if c.Spec.AuthorizationURL == authorization && c.DeletionTimestamp == nil {
			all = append(all, c)
		}
	}
	return all
}

func underWay(c *acmev1.Challenge) bool {
	return c.Status.State == acmev1.Valid || c.Status.State == acmev1.Processing
}

// refused reports whether the CA has refused a Challenge: its authorization is then also
// invalid, and another solver cannot help.
func refused(c *acmev1.Challenge) bool { return c.Status.State == acmev1.Invalid }

// carryOut returns the step for a plan.
func (s Situation) carryOut(p plan) Step {
	var surplus []*acmev1.Challenge
	for _, c := range s.Challenges {
		if c.DeletionTimestamp == nil && !slices.Contains(p.keep, c) {
			surplus = append(surplus, c)
		}
	}
	open := slices.DeleteFunc(slices.Clone(p.keep), func(c *acmev1.Challenge) bool { return c.Status.State == acmev1.Valid })
	var step Step
	switch {
	case len(p.create)+len(surplus) > 0:
		step = Step{Action: Plan, Create: p.create, Delete: surplus}
	case p.missing != nil:
		step = Step{Action: Await, Class: WaitsSolver, Reason: missingReason(p.missing)}
	case len(open) > 0:
		step = Step{Action: Await, Class: WaitsChallenges, Reason: openReason(open)}
	default:
		step = s.poll("All challenges are valid; waiting for the CA to make the order ready")
	}
	step.Missing = p.missing
	return step
}

// pending returns the authorizations that the CA still waits for.
func (s Situation) pending() []string {
	var urls []string
	for _, a := range s.Order.Status.Authorizations {
		if now := s.current(a); now.Identifier == "" || now.InitialState == acmev1.Valid || IsFailure(now.InitialState) {
			continue
		}
		if !slices.ContainsFunc(of(s.Challenges, a.URL), func(c *acmev1.Challenge) bool { return c.Status.State == acmev1.Valid || refused(c) }) {
			urls = append(urls, a.URL)
		}
	}
	return urls
}

func missingReason(e *SolverError) string {
	return fmt.Sprintf("There is no solver for %s: %v. Change spec.acme.solvers of the issuer; the Order then goes on", e.Domain, e.Err)
}

// openReason names the Challenge that an Order waits longest for, without the Challenge's
// reason, which changes with each check.
func openReason(open []*acmev1.Challenge) string {
	slices.SortFunc(open, func(a, b *acmev1.Challenge) int {
		return cmp.Or(
			cmp.Compare(stage(a), stage(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Spec.DNSName, b.Spec.DNSName), strings.Compare(a.Name, b.Name),
		)
	})
	first := open[0]
	text := fmt.Sprintf("Waiting for the validation of %s by %s (Challenge %s)", domainOf(first), first.Spec.Type, first.Name)
	if others := len(open) - 1; others > 0 {
		text += fmt.Sprintf(" and for %d others", others)
	}
	return text
}

// stage returns how far a Challenge has come.
func stage(c *acmev1.Challenge) int {
	switch {
	case !c.Status.Processing:
		return 0
	case !c.Status.Presented:
		return 1
	case c.Status.State != acmev1.Processing:
		return 2
	}
	return 3
}

func failureOf(c *acmev1.Challenge) string {
	return fmt.Sprintf("The validation of %s by %s has failed: %s", domainOf(c), c.Spec.Type, cmp.Or(c.Status.Reason, "the challenge is "+string(c.Status.State)))
}

func domainOf(c *acmev1.Challenge) string {
	if c.Spec.Wildcard {
		return "*." + c.Spec.DNSName
	}
	return c.Spec.DNSName
}
