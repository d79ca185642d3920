package apitest

import (
	"context"
	"crypto"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/pki"
)

// BoundPod is a pod with a certificate source, on its node, and the facts that a node states
// when it requests the certificate.
type BoundPod struct {
	*corev1.Pod
	Node    *corev1.Node
	Account *corev1.ServiceAccount
}

// NewBoundPod makes a pod on a node that declares the sources. It also makes the node and
// the service account "default" of the namespace if they are missing.
func NewBoundPod(t testing.TB, admin kubernetes.Interface, namespace, name, node string, sources ...corev1.PodCertificateProjection) BoundPod {
	t.Helper()
	core := admin.CoreV1()
	made := BoundPod{
		Node: ensure(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, core.Nodes().Create, core.Nodes().Get),
		Account: ensure(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			core.ServiceAccounts(namespace).Create, core.ServiceAccounts(namespace).Get),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "default", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "certificates", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
		},
	}
	for i := range sources {
		projected := pod.Spec.Volumes[0].Projected
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{PodCertificate: &sources[i]})
	}
	made.Pod = ensure(t, pod, core.Pods(namespace).Create, core.Pods(namespace).Get)
	return made
}

// PodSource is a certificate source for keys of NewKey.
func PodSource(signerName string) corev1.PodCertificateProjection {
	return corev1.PodCertificateProjection{SignerName: signerName, KeyType: "ECDSAP256", CredentialBundlePath: "bundle.pem"}
}

// Request returns a node's request with a key, for the pod's source of this index, without
// sending it.
func (p BoundPod) Request(t testing.TB, source int, key crypto.Signer) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	stub, err := pki.NewStubRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	wanted := p.Spec.Volumes[0].Projected.Sources[source].PodCertificate
	return &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}},
		},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: wanted.SignerName,
			PodName:    p.Name, PodUID: p.UID,
			ServiceAccountName: p.Account.Name, ServiceAccountUID: p.Account.UID,
			NodeName: types.NodeName(p.Node.Name), NodeUID: p.Node.UID,
			MaxExpirationSeconds:      wanted.MaxExpirationSeconds,
			UnverifiedUserAnnotations: wanted.UserAnnotations,
			StubPKCS10Request:         stub,
		},
	}
}

// ensure creates an object unless it exists.
func ensure[T metav1.Object](t testing.TB, obj T, create func(context.Context, T, metav1.CreateOptions) (T, error),
	get func(context.Context, string, metav1.GetOptions) (T, error)) T {
	t.Helper()
	made, err := create(t.Context(), obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = get(t.Context(), obj.GetName(), metav1.GetOptions{})
	}
	if err != nil {
		t.Fatalf("making %s: %v", obj.GetName(), err)
	}
	return made
}
