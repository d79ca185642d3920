package csr

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
)

// restoreDecisions overwrites the k-th condition of each deciding type in
// conditions with the k-th stored one. It skips a type whose number of
// conditions has changed, and reports whether there was no such type.
func restoreDecisions(conditions, stored []certificatesv1.CertificateSigningRequestCondition) bool {
	restored := true
	for _, t := range certificates.DecisionConditions() {
		is, was := indexesOf(conditions, t), indexesOf(stored, t)
		if len(is) != len(was) {
			restored = false
			continue
		}
		for k := range is {
			conditions[is[k]] = stored[was[k]]
		}
	}
	return restored
}

func indexesOf(conditions []certificatesv1.CertificateSigningRequestCondition, t certificatesv1.RequestConditionType) []int {
	var indexes []int
	for i := range conditions {
		if conditions[i].Type == t {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// fillTimes sets the times that the client omitted. A transition time is
// carried over while the status of the condition stays the same. Times that the
// client sent are kept, whatever their values.
func fillTimes(conditions, stored []certificatesv1.CertificateSigningRequestCondition, now metav1.Time) {
	since := transitionTimes(stored)
	for i := range conditions {
		condition := &conditions[i]
		if condition.LastUpdateTime.IsZero() {
			condition.LastUpdateTime = now
		}
		if !condition.LastTransitionTime.IsZero() {
			continue
		}
		condition.LastTransitionTime = now
		if entered, ok := since[stateOf(*condition)]; ok {
			condition.LastTransitionTime = entered
		}
	}
}

// state is the type and status of a condition.
type state struct {
	condition certificatesv1.RequestConditionType
	status    corev1.ConditionStatus
}

func stateOf(condition certificatesv1.CertificateSigningRequestCondition) state {
	return state{condition.Type, condition.Status}
}

// transitionTimes returns when each state was entered, from the first condition
// that has the time.
func transitionTimes(conditions []certificatesv1.CertificateSigningRequestCondition) map[state]metav1.Time {
	times := make(map[state]metav1.Time, len(conditions))
	for _, condition := range conditions {
		_, known := times[stateOf(condition)]
		if !known && !condition.LastTransitionTime.IsZero() {
			times[stateOf(condition)] = condition.LastTransitionTime
		}
	}
	return times
}
