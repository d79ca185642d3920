package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// The reasons of Events about requests.
const (
	EventApproved = ReasonApproved
	EventDenied   = "PolicyDenied"
	EventRecorded = "ApprovalRecorded"
	EventMissing  = quorum.ReasonApprovalsMissing
	EventFacts    = "WaitingForFacts"
	EventNone     = "NoPolicyApplies"
	EventUnknown  = certpolicy.ReasonUnavailable
)

// News reports whether an Event says something new about the request with a UID:
// not what the last one with its reason said. A loop that decides again does not
// repeat itself.
func (p *Policies) News(uid types.UID, reason, message string) bool {
	if p == nil {
		return true
	}
	_, is := p.reported.news(string(uid)+"/"+reason, message)
	return is
}

// WaitingEvent returns the Event that says why a request is not decided; nil if there
// is nothing to say, as the policies are not known for a moment.
func (a Action) WaitingEvent() *crp.Event {
	event := &crp.Event{Type: corev1.EventTypeNormal, Reason: a.Reason, Message: a.Message}
	switch {
	case a.Decision == nil:
		return nil
	case a.RequestPolicies != nil && a.Decision.Outcome != v1alpha1.OutcomeDeny:
		return a.RequestPolicies
	case a.Step == StepAwait:
		event.Reason = EventMissing
	case a.Reason == EventUnknown:
		event.Type = corev1.EventTypeWarning
	case a.Reason != EventFacts:
		return nil
	}
	return event
}

// voteIsNew is how old an approval may be that is reported. Older ones have been
// reported by the process that ran before.
const voteIsNew = 10 * time.Minute

// NewVotes returns what to report of approvals by people that have not been
// reported.
func (p *Policies) NewVotes(r request.Request, conditions []quorum.Condition) []string {
	if p == nil {
		return nil
	}
	var texts []string
	for _, c := range conditions {
		if !quorum.IsVote(c.Type) {
			continue
		}
		votes := p.Votes(r, []quorum.Condition{c})
		if len(votes) == 0 || p.clock.Since(votes[0].Time) > voteIsNew {
			continue
		}
		if text := quorum.Unsealed(c); p.News(types.UID(r.UID), EventRecorded+"/"+c.Type, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// nobodySpeaks is how long a request is undecided until it is reported that no
// policy is about it: somebody may approve it at once.
const nobodySpeaks = 10 * time.Second

// leave returns the action for a request that policies leave. If none of them
// applies, it says why.
func (p *Policies) leave(d *Decision) Action {
	action := Action{Decision: d, Reason: d.Reason, Message: d.Message}
	if len(d.Considered) == 0 || slices.ContainsFunc(d.Considered, func(c v1alpha1.ConsideredPolicy) bool { return c.Applies }) {
		return action
	}
	action.Reason, action.Message = EventNone, noPolicyApplies(d)
	action.After = max(0, d.Input.Request.Created.Add(nobodySpeaks).Sub(p.clock.Now()))
	return action
}

// parts are the parts of match in the order in which they are evaluated.
var parts = []string{"match.origins", "match.requesters", "match.namespaces", "match.access", "match.conditions"}

// noPolicyApplies names the policy of which most parts of match hold, and the part
// that does not.
func noPolicyApplies(d *Decision) string {
	nearest := slices.MaxFunc(d.Considered, func(a, b v1alpha1.ConsideredPolicy) int { // the first by name of equal ones
		return cmp.Compare(held(a), held(b))
	})
	because := nearest.Because
	if policy := d.Set.Policy(nearest.Policy); policy != nil && policy.Spec().Disclosure == v1alpha1.DiscloseReason {
		because, _, _ = strings.Cut(because, ":")
	}
	return fmt.Sprintf("No certificate policy is about this request, so somebody has to approve it. The nearest is %s: %s", nearest.Policy, because)
}

// held returns how many parts of match hold before the one that does not.
func held(c v1alpha1.ConsideredPolicy) int {
	return slices.IndexFunc(parts, func(part string) bool { return strings.HasPrefix(c.Because, part) })
}
