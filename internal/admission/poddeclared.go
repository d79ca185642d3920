package admission

import (
	"maps"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/api/certificates"
)

// declares reports whether a pod's spec asks for the certificate that is requested.
// Nodes copy the source from the pod's spec; a node that requests more acts on its own.
func declares(pod *corev1.Pod, spec *certificatesv1beta1.PodCertificateRequestSpec) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.PodCertificate != nil && sourceMatches(source.PodCertificate, spec) {
				return true
			}
		}
	}
	return false
}

func sourceMatches(source *corev1.PodCertificateProjection, spec *certificatesv1beta1.PodCertificateRequestSpec) bool {
	return source.SignerName == spec.SignerName &&
		maps.Equal(source.UserAnnotations, spec.UnverifiedUserAnnotations) &&
		lastsAsLong(source.MaxExpirationSeconds, spec.MaxExpirationSeconds) &&
		hasKeyType(source.KeyType, spec)
}

// lastsAsLong compares the lifetimes of a pod's source and of a request. Either may be
// the default; the request's may be shorter.
func lastsAsLong(source, request *int32) bool {
	return expiration(request) <= expiration(source)
}

func expiration(seconds *int32) int32 {
	if seconds == nil {
		return certificates.DefaultPodExpirationSeconds
	}
	return *seconds
}

// hasKeyType accepts keys that validation refuses with a better message.
func hasKeyType(keyType string, spec *certificatesv1beta1.PodCertificateRequestSpec) bool {
	key, err := certificates.PodRequestKey(spec)
	if err != nil {
		return true
	}
	got, err := certificates.PodKeyType(key)
	return err != nil || got == keyType
}
