package profile

import (
	"crypto"
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Facts are all that is known of a request. What they say of pods, nodes and
// service accounts has to come from these objects themselves, found by the
// UIDs in the request.
type Facts struct {
	// Kind is the kind of the request.
	Kind v1alpha1.RequestKind
	// Name, Namespace and UID are those of the request. A
	// CertificateSigningRequest has no namespace.
	Name, Namespace, UID string
	// Request is the PKCS#10 request, for pods the stub. Nil for requests of
	// pods in the form of Kubernetes 1.35, which have none: the API server has
	// then verified the proof that the pod has the key.
	Request *x509.CertificateRequest
	// Key is the key that is to get a certificate.
	Key crypto.PublicKey
	// Usages are those that a CertificateSigningRequest asks for. Pods do not
	// ask for usages.
	Usages []string
	// Duration is the life that is asked for, nil if none is.
	Duration *time.Duration
	// Annotations are a pod's unverifiedUserAnnotations.
	Annotations map[string]string
	// Requester is who asks, of CertificateSigningRequests. For pods the zero
	// value means their service account.
	Requester Requester

	// What a pod's request is about; nil for CertificateSigningRequests.
	Pod             *corev1.Pod
	ServiceAccount  *metav1.ObjectMeta
	Node            *metav1.ObjectMeta
	NamespaceObject *metav1.ObjectMeta
	// Services are those that select the pod and that its service account may
	// claim.
	Services []ServiceName
}

// Requester is a user as the API server knows it.
type Requester struct {
	Username, UID string
	Groups        []string
	Extra         map[string][]string
}

// ServiceName is the address of a Service.
type ServiceName struct {
	Name, Namespace string
}
