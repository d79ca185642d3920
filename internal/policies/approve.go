package policies

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issueoncreate"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
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
	// StepCarry has the approver of requests of ACME orders approve: approvals of an
	// earlier order count.
	StepCarry
)

// Action is what an approver does with a request, and why.
type Action struct {
	Step Step
	// Reason and Message are those of a condition or an Event.
	Reason, Message string
	// After is when to decide again; zero means only after a change.
	After time.Duration
	// Early: somebody else may decide soon, so that nothing is reported yet.
	Early bool
	// Decision is nil if no policy can be about the request.
	Decision *Decision
	// RequestPolicies is the Event of CertificateRequestPolicies, if it is they
	// who decide, and nil otherwise. Its message is not shortened.
	RequestPolicies *crp.Event
}

// Next returns what an approver does with a request that is not decided, whose
// conditions are given. Without Policies, it is left.
func (p *Policies) Next(ctx context.Context, req request.Request, conditions []quorum.Condition) Action {
	if p == nil {
		return Action{}
	}
	began := p.undecided.now()
	d, err := p.Decide(ctx, certpolicy.Input{Stage: v1alpha1.StageApprover, Request: req, Votes: p.Votes(req, conditions)})
	switch {
	case err != nil:
		return Action{Step: StepLater, Reason: EventUnknown, Message: err.Error(), After: openPause}
	case d == nil:
		if !issueoncreate.Is(ctx) {
			p.waitsFor(&req, nil, 0)
		}
		return Action{}
	case issueoncreate.Is(ctx) && !d.issuesOnCreate():
		return Action{Step: StepLater}
	}
	if d.Outcome == v1alpha1.OutcomeApprove {
		if d, err = p.Count(ctx, d); err != nil {
			return Action{Step: StepLater, Reason: EventUnknown, Message: err.Error(), After: openPause}
		}
	}
	p.counts.add(d)
	p.Record(d)
	if !issueoncreate.Is(ctx) {
		p.waitsFor(&req, d, began)
	}
	action := Action{Decision: d, Reason: d.Reason, Message: d.Message}
	if action.decideByRequestPolicies(p.Now()) {
		return action.settled(p)
	}
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		if strings.HasPrefix(d.Policy.Name, certpolicy.BuiltInPrefix) {
			return Action{Decision: d} // the approver does that by itself
		}
		action.Step, action.Reason, action.Message = StepApprove, ReasonApproved, approvedBy(d.PolicyDecision)
		if order, _ := carriedBy(d.PolicyDecision); order != "" {
			action.Step = StepCarry
		}
	case v1alpha1.OutcomeDeny:
		action.Step = StepDeny
	case v1alpha1.OutcomeNeedPeople:
		if p.seals.waits() { // which people are missing is not known
			return Action{Decision: d, Step: StepLater, Reason: EventUnknown, Message: ErrNoSealKey.Error(), After: openPause}
		}
		action.Step = StepAwait
	case v1alpha1.OutcomeLeave:
		action = p.leave(d)
	case v1alpha1.OutcomeWait:
		action.Step, action.After = StepLater, openPause
		if d.Reason != EventUnknown {
			action.Reason = EventFacts
		}
	}
	return action.settled(p)
}

// settled returns the action, or to deny later if policies have just changed. What
// depends on what users may do is decided again after a while: not all authorizers
// tell of changes.
func (a Action) settled(p *Policies) Action {
	if wait := p.Settled(); a.Step == StepDeny && wait > 0 {
		a.Step, a.After = StepLater, wait
	}
	if again := untilAgain(&a.Decision.Input, p.Now()); a.waits() && a.Decision.readsAccess() && (a.After <= 0 || again < a.After) {
		a.After = again
	}
	return a
}

// waits reports whether the action decides nothing.
func (a Action) waits() bool { return a.Step != StepApprove && a.Step != StepDeny }

// decideByRequestPolicies sets what CertificateRequestPolicies have done with a
// request. It reports whether it is they who decide.
func (a *Action) decideByRequestPolicies(now time.Time) bool {
	d := a.Decision
	if d.ruling == nil {
		return false
	}
	event := d.ruling.Event
	switch {
	case d.ruling.Err != nil && d.Outcome == v1alpha1.OutcomeWait:
		event, a.Step, a.After = crp.FailedEvent(), StepLater, untilAgain(&d.Input, now)
	case d.Outcome == v1alpha1.OutcomeLeave:
		a.Step, a.After = StepLater, untilAgain(&d.Input, now)
	case !d.ruling.decides(d.PolicyDecision):
		return false
	case d.Outcome == v1alpha1.OutcomeApprove:
		a.Step, a.Message = StepApprove, d.ruling.Message
	default:
		a.Step = StepDeny
	}
	a.RequestPolicies = &event
	return true
}

// untilAgain returns when to ask again about a request that waits for something
// of which this program is not told: the longer the request has waited, the
// later.
func untilAgain(in *certpolicy.Input, now time.Time) time.Duration {
	return min(max(now.Sub(in.Request.Created)/10, openPause), time.Minute)
}

// Decider returns the reason of the conditions Approved and Denied of a
// CertificateRequest: by convention, who has decided.
func (a Action) Decider() string {
	if a.RequestPolicies != nil {
		return crp.Reason
	}
	return requestkind.ReasonOfRequests
}

// approvedByFormat has the name and the generation of a policy; renewsText begins what
// follows if a request renews an earlier one.
const (
	approvedByFormat = "Approved by CertificatePolicy %q (generation %d)"
	renewsText       = ": it renews the "
)

func approvedBy(d *v1alpha1.PolicyDecision) string {
	text := fmt.Sprintf(approvedByFormat, d.Policy.Name, d.Policy.Generation)
	if d.Renews != nil {
		text += fmt.Sprintf(renewsText+"%s %s, which people have approved", d.Renews.Kind, request.FullName(d.Renews.Namespace, d.Renews.Name))
	}
	if order, by := carriedBy(d); order != "" {
		text += fmt.Sprintf(": the approvals of the AcmeOrder %s by %s count", order, strings.Join(by, ", "))
	}
	return text
}

// RenewedBy returns the policy by which a request was approved without people, as it
// renews an earlier one; empty if its conditions do not say so.
func RenewedBy(conditions []quorum.Condition) string {
	for _, c := range conditions {
		before, _, renews := strings.Cut(c.Message, renewsText)
		if c.Type != string(certificatesv1.CertificateApproved) || !renews || c.Reason != ReasonApproved && c.Reason != requestkind.ReasonOfRequests {
			continue
		}
		var policy string
		var generation int64
		if _, err := fmt.Sscanf(before, approvedByFormat, &policy, &generation); err == nil {
			return policy
		}
	}
	return ""
}

// Awaiting returns the condition that says which people are missing.
func (a Action) Awaiting() quorum.Condition {
	return quorum.Awaiting(a.Decision.PolicyDecision)
}
