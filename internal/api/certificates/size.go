package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Whoever may ask for a certificate may do so any number of times, and what is
// asked is stored. Kubernetes bounds none of these but annotations.
const (
	// maxMetadataBytes bounds labels, annotations, finalizers and owner
	// references together. A request fits into the annotation of "kubectl apply".
	maxMetadataBytes = 64 << 10
	// maxUsageBytes is far more than all usages that there are.
	maxUsageBytes = 4 << 10
	// maxRequesterBytes bounds what authentication says of the requester. It is
	// the requester's choice, where certificates or tokens of others say it.
	maxRequesterBytes = 64 << 10
)

// validateSpecSize bounds what a new request has besides spec.request.
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
