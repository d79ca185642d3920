package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// EventDenial is about a denial by somebody else than a policy.
	EventDenial = "DenialRecorded"
	// EventOverridden is also about the policy.
	EventOverridden = "PolicyOverridden"
	EventMissing    = quorum.ReasonApprovalsMissing
	EventFacts      = "WaitingForFacts"
	EventNone       = "NoPolicyApplies"
	EventUnknown    = certpolicy.ReasonUnavailable
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

// NewVote is an approval by a person that has not been reported.
type NewVote struct {
	crp.Event
	// Overridden are the policies that it overrides, without their specification.
	Overridden []*v1alpha1.CertificatePolicy
}

// NewVotes returns what to report of approvals by people that have not been
// reported.
func (p *Policies) NewVotes(r request.Request, conditions []quorum.Condition) []NewVote {
	if p == nil {
		return nil
	}
	var found []NewVote
	for _, c := range conditions {
		if !quorum.IsVote(c.Type) {
			continue
		}
		votes := p.Votes(r, []quorum.Condition{c})
		if len(votes) == 0 || p.clock.Since(votes[0].Time) > voteIsNew {
			continue
		}
		if text := quorum.Unsealed(c); p.News(types.UID(r.UID), EventRecorded+"/"+c.Type, text) {
			found = append(found, p.newVote(votes[0], text))
		}
	}
	return found
}

// Denial returns what to report of the denial of a request that has waited for people; nil if
// it is not denied, or has not waited. Call it before Ended. Denials by policies are reported
// when they are written: such a request does not wait for people.
func (p *Policies) Denial(r request.Request, conditions []quorum.Condition) *crp.Event {
	denied := slices.IndexFunc(conditions, func(c quorum.Condition) bool {
		return c.Type == string(certificatesv1.CertificateDenied) && c.Status == string(corev1.ConditionTrue)
	})
	if p == nil || denied < 0 || !p.waiting.has(requestKey{r.Kind, types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}) {
		return nil
	}
	c := conditions[denied]
	return &crp.Event{Type: corev1.EventTypeWarning, Reason: EventDenial, Message: "The request is denied: " + cmp.Or(c.Message, c.Reason, "no reason is given")}
}

// About returns the message for an Event about a policy that is overridden.
func (v NewVote) About(r request.Request) string {
	return fmt.Sprintf("%s %s: %s", r.Kind, request.FullName(r.Namespace, r.Name), v.Message)
}

func (p *Policies) newVote(v quorum.Vote, text string) NewVote {
	if v.Override == nil {
		return NewVote{Event: crp.Event{Type: corev1.EventTypeNormal, Reason: EventRecorded, Message: text}}
	}
	overrides := NewVote{Event: crp.Event{Type: corev1.EventTypeWarning, Reason: EventOverridden, Message: text}}
	if set, err := p.Set(); err == nil {
		for _, name := range v.Override.Policies {
			if policy := set.Policy(name); policy != nil {
				overrides.Overridden = append(overrides.Overridden, &v1alpha1.CertificatePolicy{
					TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CertificatePolicy"},
					ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(policy.UID())},
				})
			}
		}
	}
	return overrides
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
	action.Early = action.After > 0
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
