package certpolicy

import (
	"context"
	"reflect"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Call is an API call that writes an approval: Validate continues with the decision of
// Mutate. The zero value is a new call. It is used by one goroutine at a time.
type Call struct{ decided *decider }

// begin returns a new decider, which resume returns in the same call.
func (c *Checks) begin(a Approval) *decider {
	d := &decider{policies: c.policies, request: a.Request}
	if a.Call != nil {
		a.Call.decided = d
	}
	return d
}

// resume returns the decider of the call, or a new one if nothing was decided, or the
// request or the policies have changed.
func (c *Checks) resume(a Approval) *decider {
	if a.Call == nil || a.Call.decided == nil || !a.Call.decided.answers(&a.Request) {
		return c.begin(a)
	}
	return a.Call.decided
}

// answers reports whether the last decision was about a request, by the policies that are
// in force now.
func (d *decider) answers(r *request.Request) bool {
	return d.last != nil && d.last.InForce() && reflect.DeepEqual(d.request.Unparsed(), r.Unparsed())
}

// decider decides about one write by the policies in force. It uses the same policies
// and facts for all questions of the write.
type decider struct {
	policies *policies.Policies
	request  request.Request
	// always is the decision if it does not depend on votes.
	always *v1alpha1.PolicyDecision
	// last is the last decision; nil if no policy applies to the request.
	last *policies.Decision
}

// with returns the function that decides.
func (d *decider) with(ctx context.Context) quorum.DecideFunc {
	return func(votes []quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
		switch {
		case d.always != nil:
		case d.last != nil:
			d.last = d.last.Again(votes)
		default:
			d.first(ctx, votes)
		}
		if d.always != nil {
			return d.always, nil
		}
		return d.last.PolicyDecision, d.last.Requirements
	}
}

func (d *decider) first(ctx context.Context, votes []quorum.Vote) {
	decision, err := d.policies.Decide(ctx, policy.Input{Stage: v1alpha1.StageApprove, Request: d.request, Votes: votes})
	switch {
	case err != nil:
		d.always = &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeWait, Reason: policy.ReasonUnavailable, Message: err.Error()}
	case decision == nil:
		d.always = &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeLeave}
	default:
		d.last = decision
	}
}

// count counts an approval in the quotas of policies. It returns a refusal if a quota
// is used up.
func (d *decider) count(ctx context.Context) (*quorum.Refusal, error) {
	counted, err := d.policies.Count(ctx, d.last)
	if err != nil || counted == d.last {
		return nil, err
	}
	d.policies.Recorder().Record(counted)
	if counted.Outcome == v1alpha1.OutcomeApprove || counted.Outcome == v1alpha1.OutcomeLeave {
		return nil, nil
	}
	return &quorum.Refusal{Reason: counted.Reason, Message: counted.Message}, nil
}

// record records the outcome of an approval.
func (d *decider) record(m quorum.Outcome) {
	if d.last == nil {
		return
	}
	d.policies.Recorder().Record(d.last)
	if m.Recorded != nil {
		d.policies.Recorder().CountOverride(m.Recorded.Override)
	}
	switch needPeople := d.last.Outcome == v1alpha1.OutcomeNeedPeople; {
	case m.Recorded != nil && needPeople:
		d.policies.Recorder().CountVote(d.last.PolicyDecision, policies.VoteRecorded)
	case m.Recorded != nil:
		d.policies.Recorder().CountVote(d.last.PolicyDecision, policies.VoteComplete)
	case m.Refusal != nil && needPeople:
		d.policies.Recorder().CountVote(d.last.PolicyDecision, policies.VoteRefused)
	}
}
