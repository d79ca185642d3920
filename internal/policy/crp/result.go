package crp

import (
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Reason is the reason of conditions.
const Reason = approverpolicy.GroupName

// Decision is what follows from the policies for a request.
type Decision struct {
	// Outcome is Approve if a policy permits all that the request asks for; Deny, which is
	// final, if policies apply and none permits the request; Wait if no policy approves
	// the request and one that applies has no Ready condition yet; Leave if none applies.
	Outcome v1alpha1.DecisionOutcome
	// Policy is the name of the policy that approves the request.
	Policy string
	// Message is the message of the condition, whose reason is Reason. It is empty
	// without a condition.
	Message string
	// Event is reported on the request.
	Event Event
	// Considered are the policies that were evaluated, sorted by name: all, or all up to
	// the one that approves the request.
	Considered []Considered
	// Nearest is the policy that applies but for one part, if none applies.
	Nearest *Considered
	// Err, if not nil, is why the policies could not be evaluated. Decide returns it apart.
	Err error
}

// Condition returns the type of the condition, empty if there is none.
func (d Decision) Condition() cmv1.CertificateRequestConditionType {
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		return cmv1.CertificateRequestConditionApproved
	case v1alpha1.OutcomeDeny:
		return cmv1.CertificateRequestConditionDenied
	}
	return ""
}

// Considered is one policy, and why it does not approve the request.
type Considered struct {
	Policy string
	// Miss is why the policy does not apply, nil if it does.
	Miss *Miss
	// Violations are what the request asks for and the policy does not permit.
	Violations string
}

// Part is what decides whether a policy applies.
type Part string

// The parts, in the order in which they are looked at.
const (
	PartIssuerName  Part = "spec.selector.issuerRef.name"
	PartIssuerKind  Part = "spec.selector.issuerRef.kind"
	PartIssuerGroup Part = "spec.selector.issuerRef.group"
	PartNames       Part = "spec.selector.namespace.matchNames"
	PartLabels      Part = "spec.selector.namespace.matchLabels"
	PartAccess      Part = "access"
	PartReady       Part = "status"
)

// Miss is why a policy does not apply to a request.
type Miss struct {
	Part    Part
	Message string
	// distance is larger the more would have to be different.
	distance int
}

func (m Miss) String() string { return string(m.Part) + ": " + m.Message }

// Event is reported on a request.
type Event struct {
	// Type is that of core: Normal or Warning.
	Type, Reason, Action, Message string
}

// FailedEvent returns the Event about a request that could not be evaluated. The
// cause is not in it: it can be about objects that the requester may not see.
func FailedEvent() Event {
	return Event{corev1.EventTypeWarning, "EvaluationError", "SyncedFailed", "approver-policy failed to review the request and will retry"}
}

func approved(policy string) Decision {
	message := fmt.Sprintf("Approved by CertificateRequestPolicy: %q", policy)
	return Decision{
		Outcome: v1alpha1.OutcomeApprove, Policy: policy, Message: message,
		Event: Event{corev1.EventTypeNormal, "Approved", "Synced", message},
	}
}

func denied(refusing []Considered) Decision {
	texts := make([]string, 0, len(refusing))
	for _, c := range refusing {
		texts = append(texts, fmt.Sprintf("[%s: %s]", c.Policy, c.Violations))
	}
	message := "No policy approved this request: " + strings.Join(texts, " ")
	return Decision{
		Outcome: v1alpha1.OutcomeDeny, Message: message,
		Event: Event{corev1.EventTypeWarning, "Denied", "Synced", message},
	}
}

// unprocessed is the decision without a condition.
func unprocessed(outcome v1alpha1.DecisionOutcome, nearest *Considered) Decision {
	message := "Request is not applicable for any policy so ignoring"
	if nearest != nil {
		message += fmt.Sprintf(": the nearest is %q: %s", nearest.Policy, nearest.Miss)
	}
	return Decision{
		Outcome: outcome, Nearest: nearest,
		Event: Event{corev1.EventTypeNormal, "Unprocessed", "Synced", message},
	}
}
