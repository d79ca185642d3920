package certmanager

import (
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of a kind are a list with one entry for each type. In all of
// them, the last transition time changes only with the status. An existing
// entry is replaced in its place, and a new type is appended.

// RequestCondition returns the condition of cr of this type, or nil.
func RequestCondition(cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType) *cmv1.CertificateRequestCondition {
	for i := range cr.Status.Conditions {
		if cr.Status.Conditions[i].Type == kind {
			return &cr.Status.Conditions[i]
		}
	}
	return nil
}

// RequestIs reports whether the condition of this type is True.
func RequestIs(cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType) bool {
	condition := RequestCondition(cr, kind)
	return condition != nil && condition.Status == cmmeta.ConditionTrue
}

// ReadyReason is the reason of the Ready condition of cr, or "".
func ReadyReason(cr *cmv1.CertificateRequest) string {
	if ready := RequestCondition(cr, cmv1.CertificateRequestConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// SetRequestCondition sets a condition of cr. Approved and Denied must never be
// set twice: it refuses a second time.
func SetRequestCondition(cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType, status cmmeta.ConditionStatus, reason, message string, now metav1.Time) {
	condition := RequestCondition(cr, kind)
	if condition == nil {
		cr.Status.Conditions = append(cr.Status.Conditions, cmv1.CertificateRequestCondition{Type: kind})
		condition = &cr.Status.Conditions[len(cr.Status.Conditions)-1]
	}
	if condition.Status != status {
		condition.LastTransitionTime = &now
	}
	condition.Status, condition.Reason, condition.Message = status, reason, message
}

// CertificateCondition returns the condition of crt of this type, or nil.
func CertificateCondition(crt *cmv1.Certificate, kind cmv1.CertificateConditionType) *cmv1.CertificateCondition {
	for i := range crt.Status.Conditions {
		if crt.Status.Conditions[i].Type == kind {
			return &crt.Status.Conditions[i]
		}
	}
	return nil
}

// CertificateIs reports whether the condition of this type is True.
func CertificateIs(crt *cmv1.Certificate, kind cmv1.CertificateConditionType) bool {
	condition := CertificateCondition(crt, kind)
	return condition != nil && condition.Status == cmmeta.ConditionTrue
}

// SetCertificateCondition sets a condition for the current generation of crt.
func SetCertificateCondition(crt *cmv1.Certificate, kind cmv1.CertificateConditionType, status cmmeta.ConditionStatus, reason, message string, now metav1.Time) {
	condition := CertificateCondition(crt, kind)
	if condition == nil {
		crt.Status.Conditions = append(crt.Status.Conditions, cmv1.CertificateCondition{Type: kind})
		condition = &crt.Status.Conditions[len(crt.Status.Conditions)-1]
	}
	if condition.Status != status {
		condition.LastTransitionTime = &now
	}
	condition.Status, condition.Reason, condition.Message = status, reason, message
	condition.ObservedGeneration = crt.Generation
}

// RemoveCertificateCondition removes the condition of this type, if it exists.
func RemoveCertificateCondition(crt *cmv1.Certificate, kind cmv1.CertificateConditionType) {
	crt.Status.Conditions = slices.DeleteFunc(crt.Status.Conditions, func(c cmv1.CertificateCondition) bool { return c.Type == kind })
}

// IssuerCondition returns the condition of issuer of this type, or nil.
func IssuerCondition(issuer cmv1.GenericIssuer, kind cmv1.IssuerConditionType) *cmv1.IssuerCondition {
	conditions := issuer.GetStatus().Conditions
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// IssuerIs reports whether the condition of this type is True.
func IssuerIs(issuer cmv1.GenericIssuer, kind cmv1.IssuerConditionType) bool {
	condition := IssuerCondition(issuer, kind)
	return condition != nil && condition.Status == cmmeta.ConditionTrue
}

// SetIssuerCondition sets a condition for the current generation of issuer.
func SetIssuerCondition(issuer cmv1.GenericIssuer, kind cmv1.IssuerConditionType, status cmmeta.ConditionStatus, reason, message string, now metav1.Time) {
	stored := issuer.GetStatus()
	condition := IssuerCondition(issuer, kind)
	if condition == nil {
		stored.Conditions = append(stored.Conditions, cmv1.IssuerCondition{Type: kind})
		condition = &stored.Conditions[len(stored.Conditions)-1]
	}
	if condition.Status != status {
		condition.LastTransitionTime = &now
	}
	condition.Status, condition.Reason, condition.Message = status, reason, message
	condition.ObservedGeneration = issuer.GetGeneration()
}
