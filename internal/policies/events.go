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
	"k8s.io/utils/clock"

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
	// EventDenial reports a denial that no policy made.
	EventDenial = "DenialRecorded"
	// EventOverridden is reported on the policy also.
	EventOverridden = "PolicyOverridden"
	EventMissing    = quorum.ReasonApprovalsMissing
	EventFacts      = "WaitingForFacts"
	EventNone       = "NoPolicyApplies"
	EventUnknown    = certpolicy.ReasonUnavailable
)

// Events finds out which Events to report about requests. It is safe for concurrent use.
type Events struct {
	clock   clock.PassiveClock
	source  *source
	seals   *Seals
	waiting *waiting
	// reported are the Events that are reported.
	reported *said
}

// Events returns the Events of this process; nil without Policies.
func (p *Policies) Events() *Events {
	if p == nil {
		return nil
	}
	return p.events
}

// News reports whether an Event about the request with a UID differs from the last one
// with its reason, so that a loop that decides again does not repeat Events.
func (e *Events) News(uid types.UID, reason, message string) bool {
	if e == nil {
		return true
	}
	_, is := e.reported.news(string(uid)+"/"+reason, message)
	return is
}

// WaitingEvent returns the Event that explains why a request is not decided; nil if
// there is nothing to report, for example because the policies are not known for a
// moment.
func (o Outcome) WaitingEvent() *crp.Event {
	event := &crp.Event{Type: corev1.EventTypeNormal, Reason: o.Reason, Message: o.Message}
	switch {
	case o.Decision == nil:
		return nil
	case o.RequestPolicies != nil && o.Decision.Outcome != v1alpha1.OutcomeDeny:
		return o.RequestPolicies
	case o.Do == v1alpha1.OutcomeNeedPeople:
		event.Reason = EventMissing
	case o.Reason == EventUnknown:
		event.Type = corev1.EventTypeWarning
	case o.Reason != EventFacts:
		return nil
	}
	return event
}

// voteIsNew is the age up to which approvals are reported. The previous process has
// reported older ones.
const voteIsNew = 10 * time.Minute

// NewVote is an approval by a person that has not been reported.
type NewVote struct {
	crp.Event
	// Overridden are the overridden policies, without their specification.
	Overridden []*v1alpha1.CertificatePolicy
}

// NewVotes returns the Events about approvals by people that have not been reported.
func (e *Events) NewVotes(r request.Request, conditions []quorum.Condition) []NewVote {
	if e == nil {
		return nil
	}
	var found []NewVote
	for _, c := range conditions {
		if !quorum.IsVote(c.Type) {
			continue
		}
		votes := e.seals.Votes(r, []quorum.Condition{c})
		if len(votes) == 0 || e.clock.Since(votes[0].Time) > voteIsNew {
			continue
		}
		if text := quorum.Unsealed(c); e.News(types.UID(r.UID), EventRecorded+"/"+c.Type, text) {
			found = append(found, e.newVote(votes[0], text))
		}
	}
	return found
}

// Denial returns the Event about the denial of a request that has waited for people;
// nil if the request is not denied, or has not waited. Call it before Ended. Denials by
// policies are reported when they are written: such a request does not wait for people.
func (e *Events) Denial(r request.Request, conditions []quorum.Condition) *crp.Event {
	denied := slices.IndexFunc(conditions, func(c quorum.Condition) bool {
		return c.Type == string(certificatesv1.CertificateDenied) && c.Status == string(corev1.ConditionTrue)
	})
	if e == nil || denied < 0 || !e.waiting.has(requestKey{r.Kind, types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}) {
		return nil
	}
	c := conditions[denied]
	return &crp.Event{Type: corev1.EventTypeWarning, Reason: EventDenial, Message: "The request is denied: " + cmp.Or(c.Message, c.Reason, "no reason is given")}
}

// About returns the message of the Event on an overridden policy.
func (v NewVote) About(r request.Request) string {
	return fmt.Sprintf("%s %s: %s", r.Kind, request.FullName(r.Namespace, r.Name), v.Message)
}

func (e *Events) newVote(v quorum.Vote, text string) NewVote {
	if v.Override == nil {
		return NewVote{Event: crp.Event{Type: corev1.EventTypeNormal, Reason: EventRecorded, Message: text}}
	}
	overrides := NewVote{Event: crp.Event{Type: corev1.EventTypeWarning, Reason: EventOverridden, Message: text}}
	if set, err := e.source.set(); err == nil {
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

// noPolicyDelay is how long a request is undecided until an Event reports that no policy
// applies to it: a user may approve it at once.
const noPolicyDelay = 10 * time.Second

// leave returns the outcome for a request that policies leave. If none of them applies, it
// explains why.
func leave(d *Decision, now time.Time) Outcome {
	o := Outcome{Decision: d, Reason: d.Reason, Message: d.Message}
	if len(d.Considered) == 0 || slices.ContainsFunc(d.Considered, func(c v1alpha1.ConsideredPolicy) bool { return c.Applies }) {
		return o
	}
	o.Reason, o.Message = EventNone, noPolicyApplies(d)
	o.After = max(0, d.Input.Request.Created.Add(noPolicyDelay).Sub(now))
	o.Early = o.After > 0
	return o
}

// parts are the parts of match in the order in which they are evaluated.
var parts = []string{"match.origins", "match.requesters", "match.namespaces", "match.access", "match.conditions"}

// noPolicyApplies names the policy with the most parts of match that hold, and the part
// that does not hold.
func noPolicyApplies(d *Decision) string {
	nearest := slices.MaxFunc(d.Considered, func(a, b v1alpha1.ConsideredPolicy) int { // the first by name of equal ones
		return cmp.Compare(held(a), held(b))
	})
	because := nearest.Because
	if policy := d.Set.Policy(nearest.Policy); policy != nil && policy.Spec().Disclosure == v1alpha1.DiscloseReason {
		because, _, _ = strings.Cut(because, ":")
	}
	return fmt.Sprintf("No certificate policy is about this request, so a user has to approve it. The nearest is %s: %s", nearest.Policy, because)
}

// held returns how many parts of match hold before the one that does not.
func held(c v1alpha1.ConsideredPolicy) int {
	return slices.IndexFunc(parts, func(part string) bool { return strings.HasPrefix(c.Because, part) })
}
