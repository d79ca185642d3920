package crp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// state is what the status of a policy says about its evaluation.
type state struct {
	// reconciled is set if there is a Ready condition.
	reconciled, ready bool
}

func stateOf(status *approverpolicy.Status) state {
	var s state
	for _, condition := range status.Conditions {
		if condition.Type == approverpolicy.ConditionReady {
			s.reconciled = true
			s.ready = s.ready || condition.Status == metav1.ConditionTrue
		}
	}
	return s
}

// ready reports whether the policy is evaluated.
func (p *Policy) ready() bool { return p.state.ready && len(p.plugins) == 0 }

// Readiness returns the Ready condition that the policy must have, without a
// time. It is also the Event about it: Normal with the reason Ready, or Warning
// with NotReady.
func (p *Policy) Readiness() metav1.Condition {
	condition := metav1.Condition{
		Type: approverpolicy.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: p.generation,
		Reason: "Ready", Message: "CertificateRequestPolicy is ready for approval evaluation",
	}
	if len(p.plugins) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, "NotReady"
		condition.Message = "CertificateRequestPolicy is not ready for approval evaluation: " + field.ErrorList(p.plugins).ToAggregate().Error()
	}
	return condition
}
