package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	all := []Condition{}
	for _, c := range f.Certificate.Status.Conditions {
		all = append(all, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, InUTC(c.LastTransitionTime)})
	}
	return all
}

// Conditions returns the conditions of the issuer; none if nothing is known
// about it.
func (i *IssuerFacts) Conditions() []Condition {
	if i.Object == nil {
		return nil
	}
	var all []Condition
	for _, c := range i.Object.GetStatus().Conditions {
		all = append(all, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, InUTC(c.LastTransitionTime)})
	}
	return all
}

// Conditions returns the conditions of the request.
func (f *RequestFacts) Conditions() []Condition {
	var all []Condition
	for _, c := range f.Request.Status.Conditions {
		all = append(all, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, InUTC(c.LastTransitionTime)})
	}
	return all
}

// InUTC returns a time for machines; nil if there is none.
func InUTC(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
