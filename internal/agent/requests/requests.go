// Package requests sends PodCertificateRequests and watches their state.
package requests

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/objects"
)

// Client sends and watches the requests of one node.
type Client struct {
	requests *objects.Follower[certificatesv1.PodCertificateRequest]
}

// New returns a client that calls changed with the pod of each request that
// changes. Its watch ends with ctx.
func New(ctx context.Context, node string, discovery discovery.DiscoveryInterface, dynamic dynamic.Interface, changed func(types.NamespacedName)) *Client {
	return &Client{requests: objects.New(ctx, objects.Kind[certificatesv1.PodCertificateRequest]{
		Resource:      "podcertificaterequests",
		Versions:      []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion},
		FieldSelector: "spec.nodeName=" + node,
		Changed: func(r *certificatesv1.PodCertificateRequest) {
			changed(types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName})
		},
	}, discovery, dynamic)}
}

// See returns what is known about a pending request. Only the server itself can
// say that the request does not exist.
func (c *Client) See(ctx context.Context, namespace string, pending *credential.Request) (credential.Seen, error) {
	request, err := c.requests.Get(ctx, namespace, pending.Name)
	if err == nil && request == nil {
		request, err = c.requests.Find(ctx, namespace, pending.Name)
	}
	if err != nil {
		return credential.Seen{}, err
	}
	return credential.Seen{Request: request, Gone: request == nil}, nil
}

// Subject is the subject of a request.
type Subject struct {
	// Pod and Node are as the server has them.
	Pod  *corev1.Pod
	Node *corev1.Node
	// AccountUID is the UID of the pod's service account.
	AccountUID types.UID
}

// Send sends a request. It is not an error if the server already has it: its
// name is derived from a key that no other client has.
func (c *Client) Send(ctx context.Context, pending *credential.Request, source *corev1.PodCertificateProjection, subject Subject) error {
	err := c.requests.Create(ctx, subject.Pod.Namespace, "PodCertificateRequest", object(pending, source, subject))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func object(pending *credential.Request, source *corev1.PodCertificateProjection, subject Subject) *certificatesv1.PodCertificateRequest {
	pod := subject.Pod
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pending.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: source.SignerName,
			PodName:    pod.Name, PodUID: pod.UID,
			ServiceAccountName: pod.Spec.ServiceAccountName, ServiceAccountUID: subject.AccountUID,
			NodeName: types.NodeName(subject.Node.Name), NodeUID: subject.Node.UID,
			MaxExpirationSeconds:      source.MaxExpirationSeconds,
			StubPKCS10Request:         pending.CSR,
			UnverifiedUserAnnotations: source.UserAnnotations,
		},
	}
}

// IsPermanent reports whether the server will never accept a request, because
// the request itself is invalid.
func IsPermanent(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
