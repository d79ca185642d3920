package certificates

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConditionDelayed means that a CertificateSigningRequest is approved and waits
// for its signer, not for its requester. It is removed when the certificate is
// issued or Failed is set.
const ConditionDelayed certificatesv1.RequestConditionType = "SigningDelayed"

// permanentConditions can only be added, and only with status True.
var permanentConditions = []certificatesv1.RequestConditionType{
	certificatesv1.CertificateApproved,
	certificatesv1.CertificateDenied,
	certificatesv1.CertificateFailed,
}

var (
	permanentStatuses = []corev1.ConditionStatus{corev1.ConditionTrue}
	conditionStatuses = []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
)

// DecisionConditions are the conditions that decide a request; only /approval
// can change them.
func DecisionConditions() []certificatesv1.RequestConditionType {
	return []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}
}

func validateConditions(conditions []certificatesv1.CertificateSigningRequestCondition, tolerated tolerances, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, condition := range conditions {
		errs = append(errs, validateCondition(condition, tolerated, fldPath.Index(i))...)
		if opposite, ok := oppositeDecision(condition.Type); ok && seen[opposite] && !tolerated.approvedAndDenied {
			errs = append(errs, field.Invalid(fldPath, condition.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[condition.Type] && !tolerated.duplicateConditionTypes {
			errs = append(errs, field.Duplicate(fldPath.Index(i).Child("type"), condition.Type))
		}
		seen[condition.Type] = true
	}
	return errs
}

// validateCondition checks one condition on its own.
func validateCondition(condition certificatesv1.CertificateSigningRequestCondition, tolerated tolerances, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if condition.Type == "" && !tolerated.emptyConditionTypes {
		errs = append(errs, field.Required(fldPath.Child("type"), ""))
	}
	allowed := conditionStatuses
	if slices.Contains(permanentConditions, condition.Type) {
		allowed = permanentStatuses
	}
	switch {
	case condition.Status == "":
		errs = append(errs, field.Required(fldPath.Child("status"), ""))
	case !slices.Contains(allowed, condition.Status):
		errs = append(errs, field.NotSupported(fldPath.Child("status"), condition.Status, allowed))
	}
	return errs
}

// oppositeDecision returns the condition that excludes t.
func oppositeDecision(t certificatesv1.RequestConditionType) (certificatesv1.RequestConditionType, bool) {
	switch t {
	case certificatesv1.CertificateApproved:
		return certificatesv1.CertificateDenied, true
	case certificatesv1.CertificateDenied:
		return certificatesv1.CertificateApproved, true
	default:
		return "", false
	}
}

// conditionsOfType returns the conditions of type t in their order.
func conditionsOfType(conditions []certificatesv1.CertificateSigningRequestCondition, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var found []certificatesv1.CertificateSigningRequestCondition
	for _, condition := range conditions {
		if condition.Type == t {
			found = append(found, condition)
		}
	}
	return found
}

func conditionTypes(conditions []certificatesv1.CertificateSigningRequestCondition) []certificatesv1.RequestConditionType {
	types := make([]certificatesv1.RequestConditionType, 0, len(conditions))
	for _, condition := range conditions {
		types = append(types, condition.Type)
	}
	return types
}

// Condition returns a request's condition of a type, or nil. In Kubernetes only
// the presence of a condition counts.
func Condition(csr *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Type == t {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}

// HasFailed reports whether a request has failed permanently. Old clients leave
// the status of the condition empty, which means True.
func HasFailed(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateFailed && (c.Status == corev1.ConditionTrue || c.Status == "")
	})
}
