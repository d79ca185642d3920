package certificates

import (
	"fmt"
	"strings"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// Bounds on the lifetime of a pod's certificate, in seconds: an hour to 91
// days, or a day with the signers of Kubernetes itself.
const (
	MinPodExpirationSeconds           = 3600
	MaxPodExpirationSeconds           = 7862400
	MaxKubernetesPodExpirationSeconds = 86400
)

// maxUIDLength is longer than any UID that an API server makes.
const maxUIDLength = 128

// ValidatePodRequest returns the errors of a new request.
func ValidatePodRequest(request *podRequest) field.ErrorList {
	errs := metadata.Validate(&request.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, metadata.ValidateSize(&request.ObjectMeta, nil, maxMetadataBytes, field.NewPath("metadata"))...)
	return append(errs, validatePodRequestSpec(&request.Spec, field.NewPath("spec"))...)
}

// ValidatePodRequestUpdate returns the errors of replacing old by request
// through the resource itself: only metadata can change.
func ValidatePodRequestUpdate(request, old *podRequest) field.ErrorList {
	errs := validatePodRequestMetadata(request, old)
	return append(errs, apivalidation.ValidateImmutableField(request.Spec, old.Spec, field.NewPath("spec"))...)
}

func validatePodRequestMetadata(request, old *podRequest) field.ErrorList {
	errs := metadata.ValidateSize(&request.ObjectMeta, &old.ObjectMeta, maxMetadataBytes, field.NewPath("metadata"))
	return append(errs, apivalidation.ValidateObjectMetaUpdate(&request.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
}

func validatePodRequestSpec(spec *certificatesv1beta1.PodCertificateRequestSpec, fldPath *field.Path) field.ErrorList {
	errs := ValidateSignerName(fldPath.Child("signerName"), spec.SignerName)
	errs = append(errs, ValidateUserAnnotations(fldPath.Child("unverifiedUserAnnotations"), spec.UnverifiedUserAnnotations)...)
	for _, object := range []struct{ field, name, uid string }{
		{"pod", spec.PodName, string(spec.PodUID)},
		{"serviceAccount", spec.ServiceAccountName, string(spec.ServiceAccountUID)},
		{"node", string(spec.NodeName), string(spec.NodeUID)},
	} {
		errs = append(errs, validateSubdomain(fldPath.Child(object.field+"Name"), object.name)...)
		errs = append(errs, validateUID(fldPath.Child(object.field+"UID"), object.uid)...)
	}
	if spec.MaxExpirationSeconds == nil {
		return append(errs, field.Required(fldPath.Child("maxExpirationSeconds"), "must be set"))
	}
	errs = append(errs, validatePodExpiration(fldPath.Child("maxExpirationSeconds"), *spec.MaxExpirationSeconds, spec.SignerName)...)
	return append(errs, validatePodKey(spec, fldPath)...)
}

func validateSubdomain(fldPath *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(fldPath, name, problem))
	}
	return errs
}

func validateUID(fldPath *field.Path, uid string) field.ErrorList {
	switch {
	case uid == "":
		return field.ErrorList{field.Invalid(fldPath, uid, "must not be empty")}
	case len(uid) > maxUIDLength:
		return field.ErrorList{field.TooLong(fldPath, uid, maxUIDLength)}
	default:
		return nil
	}
}

func validatePodExpiration(fldPath *field.Path, seconds int32, signerName string) field.ErrorList {
	if most := MaxPodExpiration(signerName); seconds < MinPodExpirationSeconds || seconds > most {
		return field.ErrorList{field.Invalid(fldPath, seconds,
			fmt.Sprintf("must be in the range [%d, %d]", MinPodExpirationSeconds, most))}
	}
	return nil
}

// MaxPodExpiration returns the longest lifetime, in seconds, that a pod may
// request from a signer.
func MaxPodExpiration(signerName string) int32 {
	if IsKubernetesSigner(signerName) {
		return MaxKubernetesPodExpirationSeconds
	}
	return MaxPodExpirationSeconds
}

// IsKubernetesSigner reports whether a signer's name is reserved for Kubernetes
// itself: its domain is kubernetes.io or a subdomain of it.
func IsKubernetesSigner(signerName string) bool {
	domain, _, _ := strings.Cut(signerName, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}
