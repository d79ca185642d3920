package profile

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/policy/request"
)

// The reasons for refusing a pod's request before a profile is evaluated.
const (
	// ReasonIdentity: the request does not match its pod. API servers verify
	// that only for requests of nodes.
	ReasonIdentity = "IdentityMismatch"
	// ReasonEnded: the pod has ended and cannot use the certificate.
	ReasonEnded = "PodEnded"
)

// CheckPod compares a request with its pod. It returns nil if they match.
func CheckPod(spec *certificatesv1beta1.PodCertificateRequestSpec, pod *corev1.Pod) *Refusal {
	switch {
	case pod.UID != spec.PodUID:
		return mismatch("podUID", "the pod %s has the UID %s", pod.Name, pod.UID)
	case pod.Spec.NodeName != string(spec.NodeName):
		return mismatch("nodeName", "the pod %s runs on the node %q", pod.Name, pod.Spec.NodeName)
	case pod.Spec.ServiceAccountName != spec.ServiceAccountName:
		return mismatch("serviceAccountName", "the pod %s runs as the service account %q", pod.Name, pod.Spec.ServiceAccountName)
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return &Refusal{Reason: ReasonEnded, Field: "spec.podName", Message: fmt.Sprintf("the pod %s has terminated", pod.Name)}
	}
	return nil
}

func mismatch(field, format string, args ...any) *Refusal {
	return &Refusal{
		Reason: ReasonIdentity, Field: "spec." + field,
		Message: fmt.Sprintf("spec.%s is not true: ", field) + fmt.Sprintf(format, args...),
	}
}

// CheckUID compares the UID of an object in a request with the object's own
// UID. It returns nil if they are equal, or if the request has none.
func CheckUID(kind string, object *metav1.ObjectMeta, uid types.UID) *Refusal {
	if uid == "" || object.UID == uid {
		return nil
	}
	return &Refusal{Reason: ReasonIdentity, Message: fmt.Sprintf("the %s %s has the UID %s, not %s", kind, object.Name, object.UID, uid)}
}

// Selects reports whether a service sends its traffic to a pod. A service
// without a selector selects no pods.
func Selects(service *corev1.Service, pod *corev1.Pod) bool {
	return len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName &&
		labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// Claim returns the access review that decides whether a service account may
// have certificates with the names of a service.
func Claim(who request.Requester, service *corev1.Service) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: service.Namespace, Verb: "claim", Version: "v1", Resource: "services", Name: service.Name,
		},
	}
}
