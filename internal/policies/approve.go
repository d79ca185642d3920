package policies

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Step is what an approver does with a request that is not decided.
type Step int

// The steps.
const (
	// StepLeave leaves the request to whoever may approve it.
	StepLeave Step = iota
	// StepApprove approves, and StepDeny denies it.
	StepApprove
	StepDeny
	// StepAwait has the request say which people are missing.
	StepAwait
	// StepLater decides again later.
	StepLater
)

// Action is what an approver does with a request, and why.
type Action struct {
	Step Step
	// Reason and Message are those of a condition or an Event.
	Reason, Message string
	// After is when to decide again; zero means only after a change.
	After time.Duration
	// Decision is nil if no policy can be about the request.
	Decision *Decision
}

// Next returns what an approver does with a request that is not decided, whose
// conditions are given. Without Policies, it is left.
func (p *Policies) Next(ctx context.Context, req request.Request, conditions []quorum.Condition) Action {
	if p == nil {
		return Action{}
	}
	d, err := p.Decide(ctx, certpolicy.Input{Stage: v1alpha1.StageApprover, Request: req, Votes: p.Votes(req, conditions)})
	switch {
	case err != nil:
		return Action{Step: StepLater, Reason: EventUnknown, Message: err.Error(), After: openPause}
	case d == nil:
		return Action{}
	}
	p.counts.add(d)
	p.Record(d)
	p.waitsFor(&req, d.PolicyDecision)
	action := Action{Decision: d, Reason: d.Reason, Message: d.Message}
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		if strings.HasPrefix(d.Policy.Name, certpolicy.BuiltInPrefix) {
			return Action{Decision: d} // the approver does that by itself
		}
		action.Step, action.Reason, action.Message = StepApprove, ReasonApproved, approvedBy(d.Policy)
	case v1alpha1.OutcomeDeny:
		action.Step = StepDeny
		if wait := p.Settled(); wait > 0 {
			action.Step, action.After = StepLater, wait
		}
	case v1alpha1.OutcomeNeedPeople:
		action.Step = StepAwait
	case v1alpha1.OutcomeLeave:
		return p.leave(d)
	case v1alpha1.OutcomeWait:
		action.Step, action.After = StepLater, openPause
		if d.Reason != EventUnknown {
			action.Reason = EventFacts
		}
	}
	return action
}

func approvedBy(p *v1alpha1.DecidingPolicy) string {
	return fmt.Sprintf("Approved by CertificatePolicy %q (generation %d)", p.Name, p.Generation)
}

// Awaiting returns the condition that says which people are missing.
func (a Action) Awaiting() quorum.Condition {
	return quorum.Awaiting(a.Decision.PolicyDecision)
}
