package order

import (
	"cmp"
	"errors"
	"slices"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Action is the next action for an Order.
type Action string

// The actions.
const (
	// None: there is nothing to do, and nothing to wait for.
	None Action = "None"
	// Await: an event or the time Again brings the next step.
	Await Action = "Await"
	// Create: the CA has to be asked for a new order.
	Create Action = "Create"
	// Read: the CA has to be asked for the state of the order.
	Read Action = "Read"
	// ReadAuthorizations: the CA has to be asked for authorizations that the
	// status does not have yet.
	ReadAuthorizations Action = "ReadAuthorizations"
	// Recheck: the CA has to be asked for all authorizations again, because it
	// has refused to issue although they were valid.
	Recheck Action = "Recheck"
	// Plan: Challenges have to be created or deleted.
	Plan Action = "Plan"
	// Finalize: the CA has to be sent the certificate request.
	Finalize Action = "Finalize"
	// Download: the certificate has to be read.
	Download Action = "Download"
	// Explain: the order is invalid at the CA. The reason has to be found.
	Explain Action = "Explain"
	// End: the Order has failed.
	End Action = "End"
)

// Class is the kind of thing that an Order waits for. An Event is due when the class
// changes, not when the text does.
type Class string

// The classes.
const (
	Unhindered      Class = ""
	WaitsChallenges Class = "Challenges"
	WaitsCA         Class = "CA"
	WaitsLimit      Class = "RateLimited"
	WaitsIssuer     Class = "Issuer"
	WaitsSolver     Class = "Solver"
)

// Step is the next step of an Order.
type Step struct {
	Action Action
	// Class and Reason describe what the Order waits for, or why it has failed.
	Class  Class
	Reason string
	// State is the state of an Order that has failed, for End.
	State acmev1.State
	// Again is when to decide again if nothing happens before; zero means never.
	Again time.Time
	// Create and Delete are Challenges, for Plan; Delete also for None and End.
	Create []Required
	Delete []*acmev1.Challenge
	// Missing is why some authorizations have no Challenge; the others get
	// theirs. It is set for any action.
	Missing *SolverError
	// Deactivate are the authorizations that are not needed any more, for End.
	Deactivate []string
}

// Memory is the state of an Order in the memory of the controller. It is not stored: after
// a restart it is empty, and the CA is asked again.
type Memory struct {
	// Order is the last answer of the CA about the order, nil if there is none.
	// It is removed after a request to the CA whose effect is not known.
	Order *rfc8555.Order
	// Authorizations are newer than those in the status, by URL.
	Authorizations map[string]rfc8555.Authorization
	// Recheck is set if the authorizations must be read again.
	Recheck bool
	// NotBefore is when the CA may be asked again about this Order; Class and Reason
	// describe why not earlier.
	NotBefore time.Time
	Class     Class
	Reason    string
	// LimitedUntil is the end of the last wait because of a limit of the CA.
	LimitedUntil time.Time
	// Polls counts consecutive answers without news, Faults consecutive failed requests,
	// and Refusals all failed requests for the certificate.
	Polls, Faults, Refusals int
	// Blames counts the consecutive requests of the action Blamed for which the CA has
	// blamed the account.
	Blames int
	Blamed Action
}

// Situation is everything that the next step of an Order depends on.
type Situation struct {
	Order *acmev1.Order
	// Issuer is nil if no issuer is usable; Obstacle describes why.
	Issuer   *acmev1.ACMEIssuer
	Obstacle string
	// Challenges are the Challenges that the Order controls.
	Challenges []*acmev1.Challenge
	Memory     Memory
	Now        time.Time
}

const (
	// staleAfter is how long an Order may remain unchanged.
	staleAfter = 24 * time.Hour
	// maxAuthorizations limits the stored authorizations of an order.
	maxAuthorizations = 500
)

// Next returns the next step of an Order.
func Next(s Situation) Step {
	step := s.next()
	if step.Action == Await && step.Class != WaitsLimit {
		return s.withDeadline(step)
	}
	return step
}

func (s Situation) next() Step {
	status := &s.Order.Status
	switch {
	case IsFailure(status.State):
		return Step{Action: None, Delete: unfinished(s.Challenges)}
	case status.State == acmev1.Valid && len(status.Certificate) > 0:
		return Step{Action: None, Delete: s.Challenges}
	case s.isExpired():
		return s.end(acmev1.Expired, "The order of the CA has expired on "+s.Memory.Order.Expires.UTC().Format(time.RFC3339)+" before all its names were validated")
	case s.Issuer == nil:
		return Step{Action: Await, Class: WaitsIssuer, Reason: s.Obstacle}
	case status.URL == "":
		return s.ask(Create)
	case status.FinalizeURL == "":
		return s.ask(Read)
	case len(status.Authorizations) > maxAuthorizations:
		return s.end(acmev1.Errored, "The CA demands more authorizations than can be processed")
	case s.hasUnread():
		return s.ask(ReadAuthorizations)
	case s.Memory.Recheck:
		return s.ask(Recheck)
	case s.Memory.Order == nil:
		return s.ask(Read)
	}
	return s.follow()
}

// follow returns the next step of an Order whose order the CA has described
// since the start of the process.
func (s Situation) follow() Step {
	switch State(s.Memory.Order.Status) {
	case acmev1.Valid:
		if s.Memory.Order.Certificate == "" {
			return s.poll("The CA has issued the certificate, but does not say where it is yet")
		}
		return s.ask(Download)
	case acmev1.Ready:
		if s.hasLost() {
			return s.validate()
		}
		return s.ask(Finalize)
	case acmev1.Processing:
		return s.poll("Waiting for the CA to issue the certificate")
	case acmev1.Invalid, acmev1.Expired:
		return s.ask(Explain)
	}
	return s.validate()
}

// isExpired reports whether the order has expired. An order with a certificate
// does not expire.
func (s Situation) isExpired() bool {
	said := s.Memory.Order
	return said != nil && said.Status != rfc8555.StateValid && !said.Expires.IsZero() && s.Now.After(said.Expires)
}

// hasLost reports whether an authorization is not valid any more, although the
// order is ready.
func (s Situation) hasLost() bool {
	for _, a := range s.Order.Status.Authorizations {
		newer, ok := s.Memory.Authorizations[a.URL]
		if !ok {
			continue
		}
		solved := slices.ContainsFunc(of(s.Challenges, a.URL), func(c *acmev1.Challenge) bool { return c.Status.State == acmev1.Valid })
		if state := State(newer.Status); IsFailure(state) || state != acmev1.Valid && !solved {
			return true
		}
	}
	return false
}

// hasUnread reports whether the status lacks an authorization.
func (s Situation) hasUnread() bool {
	for _, a := range s.Order.Status.Authorizations {
		if a.Identifier == "" {
			return true
		}
	}
	return false
}

// ask returns a step for which the CA is asked, once that is permitted.
func (s Situation) ask(a Action) Step {
	if m := s.Memory; s.Now.Before(m.NotBefore) {
		return Step{Action: Await, Class: m.Class, Reason: cmp.Or(m.Reason, waitsForTurn), Again: m.NotBefore}
	}
	return Step{Action: a}
}

const waitsForTurn = "Waiting before the next request to the CA"

// poll asks the CA for the state of the order, once that is permitted.
func (s Situation) poll(waitingFor string) Step {
	step := s.ask(Read)
	if step.Action == Read || step.Reason == waitsForTurn {
		step.Class, step.Reason = WaitsCA, waitingFor
	}
	return step
}

// end returns the step of an Order that has failed. The CA keeps pending
// authorizations for the next order, half-done: they are deactivated.
func (s Situation) end(state acmev1.State, reason string) Step {
	step := Step{Action: End, State: state, Reason: bounded(reason), Delete: unfinished(s.Challenges)}
	if state != acmev1.Expired {
		step.Deactivate = s.pending()
	}
	return step
}

// withDeadline ends an Order that has not changed for too long.
func (s Situation) withDeadline(step Step) Step {
	last := staleAt(s.Order, s.Memory.LimitedUntil)
	if s.Now.Before(last) {
		if step.Again.IsZero() || last.Before(step.Again) {
			step.Again = last
		}
		if said := s.Memory.Order; said != nil && !said.Expires.IsZero() && said.Expires.Before(step.Again) {
			step.Again = said.Expires.Add(time.Second)
		}
		return step
	}
	return s.end(acmev1.Errored, "The Order has not changed for 24 hours. Last obstacle: "+step.Reason)
}

// staleAt returns when an Order that does not change is given up. The time for
// which a CA limits requests does not count.
func staleAt(o *acmev1.Order, limitedUntil time.Time) time.Time {
	changed := o.CreationTimestamp.Time
	if limitedUntil.After(changed) {
		changed = limitedUntil
	}
	for _, written := range o.ManagedFields {
		if written.Subresource == "status" && written.Time != nil && written.Time.After(changed) {
			changed = written.Time.Time
		}
	}
	return changed.Add(staleAfter)
}

// unfinished returns the Challenges that can still change. The others show why
// an Order has failed.
func unfinished(challenges []*acmev1.Challenge) []*acmev1.Challenge {
	var all []*acmev1.Challenge
	for _, c := range challenges {
		if !IsFailure(c.Status.State) {
			all = append(all, c)
		}
	}
	return all
}

// asSolverError returns the SolverError in err, or a new one with err.
func asSolverError(err error, domain string) *SolverError {
	var missing *SolverError
	if errors.As(err, &missing) {
		return missing
	}
	return &SolverError{Domain: domain, Choice: Choice{Index: -1}, Err: err}
}
