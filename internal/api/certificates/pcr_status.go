package certificates

import (
	"fmt"
	"slices"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podOutcomes are the conditions that finish a PodCertificateRequest; it has at
// most one of them.
var podOutcomes = []string{
	certificatesv1beta1.PodCertificateRequestConditionTypeIssued,
	certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
	certificatesv1beta1.PodCertificateRequestConditionTypeFailed,
}

// PodRequestOutcome returns the type of the condition that finishes a request,
// or "". Only the presence of a condition counts.
func PodRequestOutcome(conditions []metav1.Condition) string {
	outcome := ""
	for _, condition := range conditions {
		if slices.Contains(podOutcomes, condition.Type) {
			outcome = condition.Type
		}
	}
	return outcome
}

// ValidatePodRequestStatusUpdate returns the errors of replacing old by request
// through /status at the time now: a signer answers once, completely, and for
// the requested key.
func ValidatePodRequestStatusUpdate(request, old *podRequest, now time.Time) field.ErrorList {
	fldPath := field.NewPath("status")
	if errs := validatePodRequestMetadata(request, old); len(errs) > 0 {
		return errs
	}
	if errs := validatePodConditions(request.Status.Conditions, fldPath.Child("conditions")); len(errs) > 0 {
		return errs
	}
	same := apiequality.Semantic.DeepEqual(request.Status, old.Status)
	outcome := PodRequestOutcome(request.Status.Conditions)
	switch {
	case PodRequestOutcome(old.Status.Conditions) != "" && !same:
		return field.ErrorList{field.Invalid(fldPath, field.OmitValueType{}, "is immutable once the request is issued, denied or failed")}
	case same:
		return nil
	case outcome == certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
		return validateIssuance(request, now)
	case outcome == "":
		return field.ErrorList{field.Invalid(fldPath, field.OmitValueType{}, "can only change together with a condition Issued, Denied or Failed")}
	case holdsCertificate(request.Status):
		return field.ErrorList{field.Invalid(fldPath, field.OmitValueType{}, "must have nothing but conditions when the request is denied or failed")}
	default:
		return nil
	}
}

func holdsCertificate(status certificatesv1beta1.PodCertificateRequestStatus) bool {
	return status.CertificateChain != "" || status.NotBefore != nil || status.NotAfter != nil || status.BeginRefreshAt != nil
}

// validatePodConditions allows one outcome, with status True.
func validatePodConditions(conditions []metav1.Condition, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	decided := false
	for i, condition := range conditions {
		// Clients of Kubernetes expect these paths with a dot before the index.
		at := fldPath.Child(fmt.Sprintf("[%d]", i))
		if !slices.Contains(podOutcomes, condition.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), condition.Type, podOutcomes))
			continue
		}
		if decided {
			errs = append(errs, field.Invalid(at.Child("type"), condition.Type, "there can be only one of Issued, Denied and Failed"))
		}
		decided = true
		if condition.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), condition.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return append(errs, metav1validation.ValidateConditions(conditions, fldPath)...)
}
