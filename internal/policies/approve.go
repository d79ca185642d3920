package policies

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Outcome is what an approver does with a request that is not decided, and why. The zero
// value leaves the request to the users who may approve it.
type Outcome struct {
	// Do is Approve or Deny; NeedPeople to set the condition that lists the missing people;
	// Wait to decide again later; Leave or empty to leave the request.
	Do v1alpha1.DecisionOutcome
	// Carried: the approver of the requests of ACME orders approves, because approvals of an
	// earlier order count. Others wait.
	Carried bool
	// Reason and Message belong into a condition or an Event.
	Reason, Message string
	// After is when to decide again; zero means only after a change.
	After time.Duration
	// Early: users may decide soon, so that nothing is reported yet.
	Early bool
	// Decision is nil if no policy can be about the request.
	Decision *Decision
	// RequestPolicies is the Event of CertificateRequestPolicies if they decide, and nil
	// otherwise. Its message is not shortened.
	RequestPolicies *crp.Event
}

// Next returns what an approver does with a request that is not decided, whose
// conditions are given. Without Policies, it is left.
func (p *Policies) Next(ctx context.Context, req request.Request, conditions []quorum.Condition) Outcome {
	if p == nil {
		return Outcome{}
	}
	began := p.undecided.facts.now()
	d, err := p.Decide(ctx, certpolicy.Input{Stage: v1alpha1.StageApprover, Request: req, Votes: p.seals.Votes(req, conditions)})
	switch {
	case err != nil:
		return Outcome{Do: v1alpha1.OutcomeWait, Reason: EventUnknown, Message: err.Error(), After: openPause}
	case d == nil:
		if !issueoncreate.Is(ctx) {
			p.undecided.waits(&req, nil, 0)
		}
		return Outcome{}
	case issueoncreate.Is(ctx) && !d.issuesOnCreate():
		return Outcome{Do: v1alpha1.OutcomeWait}
	}
	if d.Outcome == v1alpha1.OutcomeApprove {
		if d, err = p.Count(ctx, d); err != nil {
			return Outcome{Do: v1alpha1.OutcomeWait, Reason: EventUnknown, Message: err.Error(), After: openPause}
		}
	}
	p.recorder.counts.add(d)
	p.recorder.Record(d)
	if !issueoncreate.Is(ctx) {
		p.undecided.waits(&req, d, began)
	}
	o := Outcome{Decision: d, Reason: d.Reason, Message: d.Message}
	if o.decideByRequestPolicies(p.Now()) {
		return o.settled(p)
	}
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		if strings.HasPrefix(d.Policy.Name, certpolicy.BuiltInPrefix) {
			return Outcome{Decision: d} // the approver does that by itself
		}
		o.Do, o.Reason, o.Message = v1alpha1.OutcomeApprove, ReasonApproved, approvedBy(d.PolicyDecision)
		if order, _ := carriedBy(d.PolicyDecision); order != "" {
			o.Do, o.Carried = v1alpha1.OutcomeWait, true
		}
	case v1alpha1.OutcomeDeny:
		o.Do = v1alpha1.OutcomeDeny
	case v1alpha1.OutcomeNeedPeople:
		if p.seals.waits() { // which people are missing is not known
			return Outcome{Decision: d, Do: v1alpha1.OutcomeWait, Reason: EventUnknown, Message: ErrNoSealKey.Error(), After: openPause}
		}
		o.Do = v1alpha1.OutcomeNeedPeople
	case v1alpha1.OutcomeLeave:
		o = leave(d, p.clock.Now())
	case v1alpha1.OutcomeWait:
		o.Do, o.After = v1alpha1.OutcomeWait, openPause
		if d.Reason != EventUnknown {
			o.Reason = EventFacts
		}
	}
	return o.settled(p)
}

// settled returns the outcome, or to deny later if policies have just changed. An
// outcome that depends on the rights of users is decided again after a while, because
// not all authorizers report changes.
func (o Outcome) settled(p *Policies) Outcome {
	if wait := p.Settled(); o.Do == v1alpha1.OutcomeDeny && wait > 0 {
		o.Do, o.After = v1alpha1.OutcomeWait, wait
	}
	if again := untilAgain(&o.Decision.Input, p.Now()); o.waits() && o.Decision.readsAccess() && (o.After <= 0 || again < o.After) {
		o.After = again
	}
	return o
}

// waits reports whether the outcome decides nothing.
func (o Outcome) waits() bool { return o.Do != v1alpha1.OutcomeApprove && o.Do != v1alpha1.OutcomeDeny }

// Leaves reports whether the policies leave the request.
func (o Outcome) Leaves() bool { return o.Do == "" || o.Do == v1alpha1.OutcomeLeave }

// decideByRequestPolicies sets the outcome that CertificateRequestPolicies decide. It
// reports whether they decide.
func (o *Outcome) decideByRequestPolicies(now time.Time) bool {
	d := o.Decision
	if d.requestPolicies == nil {
		return false
	}
	event := d.requestPolicies.Event
	switch {
	case d.requestPolicies.Err != nil && d.Outcome == v1alpha1.OutcomeWait:
		event, o.Do, o.After = crp.FailedEvent(), v1alpha1.OutcomeWait, untilAgain(&d.Input, now)
	case d.Outcome == v1alpha1.OutcomeLeave:
		o.Do, o.After = v1alpha1.OutcomeWait, untilAgain(&d.Input, now)
	case !d.byRequestPolicies():
		return false
	case d.Outcome == v1alpha1.OutcomeApprove:
		o.Do, o.Message = v1alpha1.OutcomeApprove, d.requestPolicies.Message
	default:
		o.Do = v1alpha1.OutcomeDeny
	}
	o.RequestPolicies = &event
	return true
}

// untilAgain returns when to ask again about a request that waits for something that
// this program cannot watch: the longer the request has waited, the later.
func untilAgain(in *certpolicy.Input, now time.Time) time.Duration {
	return min(max(now.Sub(in.Request.Created)/10, openPause), time.Minute)
}

// Decider returns the reason of the conditions Approved and Denied of a
// CertificateRequest: by convention, the name of the approver.
func (o Outcome) Decider() string {
	if o.RequestPolicies != nil {
		return crp.Reason
	}
	return requestkind.ReasonOfRequests
}

// approvedByFormat contains the name and the generation of a policy. renewsText begins
// the rest of the message if a request renews an earlier one.
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

// RenewedBy returns the policy that approved a request without people because the
// request renews an earlier one; "" if its conditions name none.
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

// Awaiting returns the condition that lists the missing people.
func (o Outcome) Awaiting() quorum.Condition {
	return quorum.Awaiting(o.Decision.PolicyDecision)
}
