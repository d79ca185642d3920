package certificates

import (
	"bytes"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// endpoint defines which parts of a status may change through an endpoint.
type endpoint struct {
	setsCertificate bool
	decides         bool // adds and edits Approved and Denied
}

var (
	mainEndpoint     = endpoint{}
	statusEndpoint   = endpoint{setsCertificate: true}
	approvalEndpoint = endpoint{decides: true}
)

// ValidateCSR returns the errors of a new csr that a client sent as version.
func ValidateCSR(csr *certificatesv1.CertificateSigningRequest, version schema.GroupVersion) field.ErrorList {
	errs := validateCSR(csr, toleratedFor(version, csr, nil), nil)
	errs = append(errs, metadata.ValidateSize(&csr.ObjectMeta, nil, maxMetadataBytes, field.NewPath("metadata"))...)
	return append(errs, validateSpecSize(&csr.Spec, field.NewPath("spec"))...)
}

// ValidateCSRUpdate returns the errors of replacing old by csr through the
// resource itself.
func ValidateCSRUpdate(csr, old *certificatesv1.CertificateSigningRequest, version schema.GroupVersion) field.ErrorList {
	return validateCSRUpdate(csr, old, toleratedFor(version, csr, old), mainEndpoint)
}

// ValidateCSRStatusUpdate returns the errors of replacing old by csr through
// /status.
func ValidateCSRStatusUpdate(csr, old *certificatesv1.CertificateSigningRequest, version schema.GroupVersion) field.ErrorList {
	return validateCSRUpdate(csr, old, toleratedFor(version, csr, old), statusEndpoint)
}

// ValidateCSRApprovalUpdate returns the errors of replacing old by csr through
// /approval.
func ValidateCSRApprovalUpdate(csr, old *certificatesv1.CertificateSigningRequest, version schema.GroupVersion) field.ErrorList {
	return validateCSRUpdate(csr, old, toleratedFor(version, csr, old), approvalEndpoint)
}

// ValidateCSRAnswer returns the errors of the status of a csr that replaces old through
// /status, or with decides through /approval. All the rest of csr is that of old, and was
// validated as ValidateCSR does.
func ValidateCSRAnswer(csr, old *certificatesv1.CertificateSigningRequest, version schema.GroupVersion, decides bool) field.ErrorList {
	tolerated, via := toleratedFor(version, csr, old), statusEndpoint
	if decides {
		via = approvalEndpoint
	}
	return append(validateStatus(&csr.Status, tolerated), validateStatusChanges(&csr.Status, &old.Status, tolerated, via)...)
}

// validateCSR validates a new or changed object. proven is a request that is known to be
// signed with the key inside it.
func validateCSR(csr *certificatesv1.CertificateSigningRequest, tolerated tolerances, proven []byte) field.ErrorList {
	errs := metadata.Validate(&csr.ObjectMeta, false, metadata.AnyName, field.NewPath("metadata"))
	errs = append(errs, validateSpec(&csr.Spec, tolerated, proven, field.NewPath("spec"))...)
	return append(errs, validateStatus(&csr.Status, tolerated)...)
}

func validateStatus(status *certificatesv1.CertificateSigningRequestStatus, tolerated tolerances) field.ErrorList {
	errs := validateConditions(status.Conditions, tolerated, field.NewPath("status", "conditions"))
	if !tolerated.arbitraryCertificate {
		errs = append(errs, validateCertificate(status.Certificate, field.NewPath("status", "certificate"))...)
	}
	return errs
}

func validateSpec(spec *certificatesv1.CertificateSigningRequestSpec, tolerated tolerances, proven []byte, fldPath *field.Path) field.ErrorList {
	errs := validateRequest(spec.Request, proven, fldPath.Child("request"))
	errs = append(errs, validateUsages(spec.Usages, tolerated, fldPath.Child("usages"))...)
	errs = append(errs, validateRequestedSigner(spec.SignerName, tolerated, fldPath.Child("signerName"))...)
	return append(errs, validateExpirationSeconds(spec.ExpirationSeconds, fldPath.Child("expirationSeconds"))...)
}

// validateCSRUpdate checks the object, then the changes to it. The signature of
// the old request is not verified again: it is the most expensive check.
func validateCSRUpdate(csr, old *certificatesv1.CertificateSigningRequest, tolerated tolerances, via endpoint) field.ErrorList {
	errs := validateCSR(csr, tolerated, old.Spec.Request)
	errs = append(errs, validateStatusChanges(&csr.Status, &old.Status, tolerated, via)...)
	errs = append(errs, metadata.ValidateSize(&csr.ObjectMeta, &old.ObjectMeta, maxMetadataBytes, field.NewPath("metadata"))...)
	return append(errs, validation.ValidateObjectMetaUpdate(&csr.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
}

func validateStatusChanges(status, old *certificatesv1.CertificateSigningRequestStatus, tolerated tolerances, via endpoint) field.ErrorList {
	errs := validateConditionChanges(status.Conditions, old.Conditions, via)
	return append(errs, validateCertificateChange(status.Certificate, old.Certificate, tolerated, via)...)
}

// validateConditionChanges refuses to change decisions and failures, and allows
// decisions only through /approval.
func validateConditionChanges(conditions, old []certificatesv1.CertificateSigningRequestCondition, via endpoint) field.ErrorList {
	fldPath := field.NewPath("status", "conditions")
	var errs field.ErrorList
	for _, t := range permanentConditions {
		if len(conditionsOfType(conditions, t)) < len(conditionsOfType(old, t)) {
			errs = append(errs, field.Forbidden(fldPath, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	if via.decides {
		return errs
	}
	for _, t := range DecisionConditions() {
		is, was := conditionsOfType(conditions, t), conditionsOfType(old, t)
		switch {
		case len(is) > len(was):
			errs = append(errs, field.Forbidden(fldPath, fmt.Sprintf("updates may not add a condition of type %q", t)))
		case len(is) == len(was) && !apiequality.Semantic.DeepEqual(is, was):
			errs = append(errs, field.Forbidden(fldPath,
				fmt.Sprintf("updates may not modify a condition of type %q\n%s", t, diff.Diff(was, is))))
		}
	}
	return errs
}

func validateCertificateChange(certificate, old []byte, tolerated tolerances, via endpoint) field.ErrorList {
	fldPath := field.NewPath("status", "certificate")
	switch {
	case bytes.Equal(certificate, old):
		return nil
	case !via.setsCertificate:
		return field.ErrorList{field.Forbidden(fldPath, "updates may not set certificate content")}
	case len(old) > 0 && !tolerated.replacedCertificate:
		return field.ErrorList{field.Forbidden(fldPath, "updates may not modify existing certificate content")}
	default:
		return nil
	}
}
