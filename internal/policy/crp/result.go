package crp

import (
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Outcome is what follows from the policies for a request.
type Outcome string

// The outcomes.
const (
	// Approve: a policy permits all that the request asks for.
	Approve Outcome = "Approve"
	// Deny: policies apply, and none permits the request. It is final.
	Deny Outcome = "Deny"
	// Undecided: no policy approves the request, and one that applies has no
	// Ready condition yet.
	Undecided Outcome = "Undecided"
	// NotApplicable: no policy applies.
	NotApplicable Outcome = "NotApplicable"
)

// Reason is that of conditions.
const Reason = approverpolicy.GroupName

// Result is the decision about a request.
type Result struct {
	Outcome Outcome
	// Policy is the name of the one that approves the request.
	Policy string
	// Message is that of the condition, whose reason is Reason. It is empty if
	// there is no condition.
	Message string
	// Event is reported on the request.
	Event Event
	// Considered are the policies that were looked at, sorted by name: all, or
	// those up to the one that approves the request.
	Considered []Considered
	// Nearest is the policy that applies but for one part, if none applies.
	Nearest *Considered
}

// Condition returns the type of the condition, empty if there is none.
func (r Result) Condition() cmv1.CertificateRequestConditionType {
	switch r.Outcome {
	case Approve:
		return cmv1.CertificateRequestConditionApproved
	case Deny:
		return cmv1.CertificateRequestConditionDenied
	}
	return ""
}

// Considered is what became of one policy.
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

func approved(policy string) Result {
	message := fmt.Sprintf("Approved by CertificateRequestPolicy: %q", policy)
	return Result{
		Outcome: Approve, Policy: policy, Message: message,
		Event: Event{corev1.EventTypeNormal, "Approved", "Synced", message},
	}
}

func denied(refusing []Considered) Result {
	texts := make([]string, 0, len(refusing))
	for _, c := range refusing {
		texts = append(texts, fmt.Sprintf("[%s: %s]", c.Policy, c.Violations))
	}
	message := "No policy approved this request: " + strings.Join(texts, " ")
	return Result{
		Outcome: Deny, Message: message,
		Event: Event{corev1.EventTypeWarning, "Denied", "Synced", message},
	}
}

// unprocessed is the result without a condition.
func unprocessed(outcome Outcome, nearest *Considered) Result {
	message := "Request is not applicable for any policy so ignoring"
	if nearest != nil {
		message += fmt.Sprintf(": the nearest is %q: %s", nearest.Policy, nearest.Miss)
	}
	return Result{
		Outcome: outcome, Nearest: nearest,
		Event: Event{corev1.EventTypeNormal, "Unprocessed", "Synced", message},
	}
}
