package challenge

import (
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/policy/order"
)

// Step is something to be done for a Challenge.
type Step string

// The steps, roughly in their order.
const (
	Nothing Step = ""
	// Start marks the Challenge as being processed.
	Start Step = "Start"
	// Read reads the state from the CA.
	Read Step = "Read"
	// Present makes the answer available.
	Present Step = "Present"
	// Check does the self check.
	Check Step = "Check"
	// Delay is waited instead of a self check.
	Delay Step = "Delay"
	// Accept asks the CA to validate.
	Accept Step = "Accept"
	// Poll asks the CA for the result.
	Poll Step = "Poll"
	// GiveUp ends a Challenge that has taken too long.
	GiveUp Step = "GiveUp"
	// CleanUp removes what was presented.
	CleanUp Step = "CleanUp"
	// Close records that nothing is presented any more.
	Close Step = "Close"

	// FindIssuer is a part of Read, Present, Check, Accept and Poll. Only Memory
	// has it.
	FindIssuer Step = "FindIssuer"
)

// Plan is the next step of a Challenge.
type Plan struct {
	Step Step
	// At is when to do it; it is due if that is not after now. It is zero if
	// there is nothing to do.
	At time.Time
	// NeedsSlot is set if the step may only be done by a limited number of
	// Challenges at the same time.
	NeedsSlot bool
	// KeepsSlot is set if the slot is kept until then.
	KeepsSlot bool
}

// Due reports whether there is something to do now.
func (p Plan) Due(now time.Time) bool { return p.Step != Nothing && !p.At.After(now) }

// validationTime is how long a CA usually takes at most. During this time the Challenge
// keeps its slot. After it, the CA is asked again to validate if it has not begun.
const validationTime = 2 * time.Minute

// retryTime is the pause before a CA is asked to validate again that reports an error in a
// pending challenge. Such a CA does not retry on its own: while a CA retries, the
// challenge is processing (RFC 8555 section 8.2).
const retryTime = 30 * time.Second

// Next returns what to do next.
func (s Situation) Next() Plan {
	ch, m := s.Challenge, s.Memory
	if s.ended() {
		return s.closing()
	}
	if deadline := s.deadline(); !deadline.IsZero() && ch.Status.Processing && !s.Now.Before(deadline) {
		return Plan{Step: GiveUp, At: deadline}
	}
	switch {
	case !ch.Status.Processing:
		return s.plan(Start)
	case !m.Read:
		return s.plan(Read)
	case !ch.Status.Presented:
		return s.plan(Present)
	case !m.Accepted.IsZero():
		plan := s.plan(Poll)
		plan.KeepsSlot = s.Now.Sub(m.Accepted) < validationTime
		return plan
	case ch.Spec.Solver.WaitInsteadOfSelfCheck != nil:
		return s.unchecked()
	case m.Passed.IsZero():
		return s.plan(Check)
	}
	plan := s.plan(Accept)
	plan.At = later(plan.At, m.Passed.Add(m.Delay))
	return plan
}

// ended reports whether what was presented is no longer needed.
func (s Situation) ended() bool {
	ch := s.Challenge
	return ch.DeletionTimestamp != nil || order.IsFinal(ch.Status.State)
}

// closing returns what to do for a Challenge that has ended.
func (s Situation) closing() Plan {
	ch := s.Challenge
	switch {
	case HasFinalizer(ch):
		return s.plan(CleanUp)
	case ch.Status.Presented || ch.Status.Processing:
		return s.plan(Close)
	}
	return Plan{}
}

// unchecked returns what to do for a Challenge that waits instead of a self
// check.
func (s Situation) unchecked() Plan {
	if end := s.waitEnd(); end.IsZero() || s.Now.Before(end) {
		return s.plan(Delay)
	}
	return s.plan(Accept)
}

// waitEnd returns when a wait instead of a self check ends; zero if it has not
// begun.
func (s Situation) waitEnd() time.Time {
	ch := s.Challenge
	if ch.Status.PresentedAt == nil {
		return time.Time{}
	}
	return ch.Status.PresentedAt.Add(ch.Spec.Solver.WaitInsteadOfSelfCheck.Duration)
}

// plan returns the plan for a step: after the wait for it, but not after the
// deadline.
func (s Situation) plan(step Step) Plan {
	p := Plan{Step: step, At: s.Now}
	switch step {
	case Start, Read, Present, Check, Accept:
		p.NeedsSlot = true
	}
	if s.Memory.delays(step) {
		p.At = later(p.At, s.Memory.Due)
	}
	if deadline := s.deadline(); !deadline.IsZero() && s.Challenge.Status.Processing && !s.ended() && p.At.After(deadline) {
		p.At = deadline // to give up
	}
	return p
}

// deadline returns when the Challenge must be solved; zero if that is not known
// yet.
func (s Situation) deadline() time.Time {
	begin := s.Memory.Since
	if at := s.Challenge.Status.PresentedAt; at != nil {
		begin = at.Time
	}
	var limit time.Time
	if !begin.IsZero() && s.Rules.Deadline > 0 {
		limit = begin.Add(s.Rules.Deadline)
		if wait := s.Challenge.Spec.Solver.WaitInsteadOfSelfCheck; wait != nil {
			limit = limit.Add(wait.Duration) // which the user chose
		}
	}
	return earliest(limit, s.Memory.Expires)
}

// Started returns the result of Start.
func (s Situation) Started() Result {
	r := s.result()
	r.Status.Processing = true
	r.Memory.Since = s.Now
	r.Events = []Event{{Reason: "Started", Note: "Challenge scheduled for processing"}}
	return r
}

// GivenUp returns the result of GiveUp.
func (s Situation) GivenUp() Result {
	ch := s.Challenge
	reason := "Given up: the " + string(ch.Spec.Type) + " challenge was not solved by " + minute(s.deadline())
	if last := ch.Status.Reason; last != "" {
		reason += ": " + last
	}
	r := s.result()
	r.Status.State, r.Status.Reason = acmev1.Errored, fit(reason)
	r.Events = []Event{{Warning: true, Reason: eventFailed, Note: "Accepting challenge authorization failed: " + reason}}
	return r
}
