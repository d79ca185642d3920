package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A client that may request certificates may create any number of requests, and
// they are stored. Kubernetes bounds only the annotations.
const (
	// maxMetadataBytes bounds labels, annotations, finalizers and owner
	// references together. It allows for a request in the annotation of
	// "kubectl apply".
	maxMetadataBytes = 64 << 10
	// maxUsageBytes is far more than all existing usages need.
	maxUsageBytes = 4 << 10
	// maxRequesterBytes bounds what authentication returns about the requester.
	// The requester can choose it where it comes from certificates or tokens of
	// other issuers.
	maxRequesterBytes = 64 << 10
)

// validateSpecSize limits the size of the fields of a new request other than spec.request.
func validateSpecSize(spec *certificatesv1.CertificateSigningRequestSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	usages := 0
	for _, usage := range spec.Usages {
		usages += len(usage)
	}
	if usages > maxUsageBytes {
		errs = append(errs, field.TooLong(fldPath.Child("usages"), "", maxUsageBytes))
	}
	requester := len(spec.Username) + len(spec.UID)
	for _, group := range spec.Groups {
		requester += len(group)
	}
	for key, values := range spec.Extra {
		requester += len(key)
		for _, value := range values {
			requester += len(value)
		}
	}
	if requester > maxRequesterBytes {
		err := field.TooLong(fldPath, "", maxRequesterBytes)
		err.Detail = "username, uid, groups and extra " + err.Detail + " together"
		errs = append(errs, err)
	}
	return errs
}
