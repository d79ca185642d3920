package certpolicy

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// ToCSR stores conditions in a CertificateSigningRequest that was sent. Unchanged
// conditions keep their times; the server sets the times of the others.
func ToCSR(sent, stored *certificatesv1.CertificateSigningRequest, conditions []quorum.Condition) {
	sent.ManagedFields = disown(sent.ManagedFields, policies.ConditionsOf(sent), conditions)
	sent.Status.Conditions = merge(conditions, sent.Status.Conditions, stored.Status.Conditions,
		func(c certificatesv1.CertificateSigningRequestCondition) quorum.Condition {
			return quorum.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		},
		func(c quorum.Condition) certificatesv1.CertificateSigningRequestCondition {
			return certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.RequestConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			}
		})
}

// ToUnstructured is ToCSR for objects without a Go type, such as CertificateRequests.
// It sets the times, because the server does not.
func ToUnstructured(sent, stored *unstructured.Unstructured, conditions []quorum.Condition, now time.Time) error {
	var were []quorum.Condition
	for _, c := range looseConditions(sent) {
		were = append(were, looseCondition(c))
	}
	if managed := sent.GetManagedFields(); len(managed) > 0 {
		sent.SetManagedFields(disown(managed, were, conditions))
	}
	before := looseConditions(stored)
	merged := merge(conditions, looseConditions(sent), before, looseCondition, func(c quorum.Condition) any {
		since := now.UTC().Format(time.RFC3339)
		for _, old := range before {
			was := looseCondition(old)
			if at, _ := old.(map[string]any)["lastTransitionTime"].(string); at != "" && was.Type == c.Type && was.Status == c.Status {
				since = at
			}
		}
		return map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message, "lastTransitionTime": since}
	})
	if len(merged) == 0 && len(looseConditions(sent)) == 0 {
		return nil
	}
	return unstructured.SetNestedSlice(sent.Object, merged, "status", "conditions")
}

func looseConditions(object *unstructured.Unstructured) []any {
	status, _ := object.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	return conditions
}

func looseCondition(condition any) quorum.Condition {
	fields, _ := condition.(map[string]any)
	text := func(name string) string { value, _ := fields[name].(string); return value }
	return quorum.Condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message")}
}

// merge returns conditions in the form in which they were sent or are stored. Clients
// cannot set the times of the server's own conditions.
func merge[C any](conditions []quorum.Condition, sent, stored []C, of func(C) quorum.Condition, create func(quorum.Condition) C) []C {
	merged := make([]C, 0, len(conditions))
	for _, c := range conditions {
		same := func(other C) bool { return of(other) == c }
		i, j := slices.IndexFunc(sent, same), slices.IndexFunc(stored, same)
		own := strings.HasPrefix(c.Type, quorum.ConditionPrefix)
		switch {
		case j >= 0 && (own || i < 0):
			merged = append(merged, stored[j])
		case i >= 0 && !own:
			merged = append(merged, sent[i])
		default:
			merged = append(merged, create(c))
		}
	}
	return merged
}
