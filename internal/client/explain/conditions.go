package explain

import (
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/quorum"
)

// Condition is a condition of an object.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"`
	Reason             string     `json:"reason"`
	Message            string     `json:"message"`
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
}

// Conditions returns the conditions of the Certificate.
func (f *CertificateFacts) Conditions() []Condition {
	return conditionsOf(f.Certificate.Status.Conditions, func(c cmv1.CertificateCondition) Condition {
		return Condition{string(c.Type), string(c.Status), c.Reason, c.Message, InUTC(c.LastTransitionTime)}
	})
}

// Conditions returns the conditions of the issuer; none if the issuer is unknown.
func (i *IssuerFacts) Conditions() []Condition {
	if i.Object == nil {
		return nil
	}
	return conditionsOf(i.Object.GetStatus().Conditions, func(c cmv1.IssuerCondition) Condition {
		return Condition{string(c.Type), string(c.Status), c.Reason, c.Message, InUTC(c.LastTransitionTime)}
	})
}

// Conditions returns the conditions of the request, votes without their seals.
func (f *RequestFacts) Conditions() []Condition {
	return conditionsOf(f.Request.Status.Conditions, func(c cmv1.CertificateRequestCondition) Condition {
		text := quorum.Unsealed(quorum.Condition{Type: string(c.Type), Message: c.Message})
		return Condition{string(c.Type), string(c.Status), c.Reason, text, InUTC(c.LastTransitionTime)}
	})
}

func conditionsOf[C any](conditions []C, of func(C) Condition) []Condition {
	all := []Condition{}
	for _, c := range conditions {
		all = append(all, of(c))
	}
	return all
}

// InUTC returns a time for JSON and YAML; nil for the zero time.
func InUTC(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
