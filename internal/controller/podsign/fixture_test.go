package podsign_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const account = "web"

// The servers that tests share. Tests that stop their server start their own.
var (
	common apitest.Shared
	// trusting leaves it to the signers to verify requests: another API server
	// checks only those of nodes. It has ready-made signers.
	trusting = apitest.Shared{Options: []func(*server.Config){func(cfg *server.Config) {
		cfg.Admission.DisabledPlugins = []string{"PodCertificateIdentity"}
		cfg.PodSigners.Install = []string{"spiffe", "service-dns", "kube-apiserver-client-pod"}
		cfg.PodSigners.TrustDomain = "example.org"
	}}}
)

func TestMain(m *testing.M) { apitest.Main(m, &common, &trusting) }

// world is a server with a namespace, and a node for pods.
type world struct {
	*apitest.Server
	core      kubernetes.Interface
	api       client.Client
	namespace string
	node      *corev1.Node
	account   *corev1.ServiceAccount
}

func newWorld(t testing.TB, server *apitest.Server) *world {
	t.Helper()
	w := &world{Server: server}
	w.connect(t)
	w.namespace = apitest.OwnNamespace(t, w.core)
	var err error
	w.account, err = w.core.CoreV1().ServiceAccounts(w.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.node, err = w.core.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + w.namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// connect makes the clients, which are valid for one run of the server.
func (w *world) connect(t testing.TB) {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	var err error
	w.core = apitest.Client(t, w.Admin(t))
	if w.api, err = client.New(w.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
}

// newSigner returns a Signer for pods with its own CA. It is named after the
// namespace.
func (w *world) newSigner() *v1alpha1.Signer {
	return &v1alpha1.Signer{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: v1alpha1.SignerSpec{
			SignerName: w.signerName(),
			Requests:   []v1alpha1.RequestKind{v1alpha1.PodCertificateRequests},
			CA:         v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
			Profile: v1alpha1.SignerProfile{
				Names:  v1alpha1.NamesProfile{URIs: `["spiffe://example.org/ns/" + request.namespace + "/sa/" + serviceAccount.metadata.name]`},
				Usages: []string{"digital signature", "client auth", "server auth"},
			},
		},
	}
}

func (w *world) signerName() string { return "example.com/" + w.namespace }

func (w *world) create(t testing.TB, o client.Object) {
	t.Helper()
	if err := w.api.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// declare creates a Signer and waits until it signs.
func (w *world) declare(t testing.TB, s *v1alpha1.Signer) *v1alpha1.Signer {
	t.Helper()
	w.create(t, s)
	return w.signer(t, s.Name, "signs", func(s *v1alpha1.Signer) bool { return meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.Ready) })
}

// signer waits for a Signer that is as it should be.
func (w *world) signer(t testing.TB, name, what string, holds func(*v1alpha1.Signer) bool) *v1alpha1.Signer {
	t.Helper()
	s := &v1alpha1.Signer{}
	defer func() {
		if t.Failed() {
			t.Logf("status: %+v", s.Status)
		}
	}()
	apitest.Eventually(t, "Signer "+name+" "+what, func() bool {
		latest := &v1alpha1.Signer{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: name}, latest); err != nil {
			t.Fatal(err)
		}
		s = latest
		return holds(s)
	})
	return s
}

func (w *world) pod(t testing.TB, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: w.node.Name, ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "c", Image: "image"}},
			Volumes:    []corev1.Volume{{Name: "certificates", VolumeSource: corev1.VolumeSource{Projected: w.projected()}}},
		},
	}
	w.create(t, pod)
	return pod
}

// projected returns a volume source with everything that tests request.
func (w *world) projected() *corev1.ProjectedVolumeSource {
	volume := &corev1.ProjectedVolumeSource{}
	for _, signer := range []string{w.signerName(), "kubernetes.io/kube-apiserver-client-pod"} {
		for _, keyType := range []string{"ED25519", "ECDSAP256"} {
			volume.Sources = append(volume.Sources, corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
				SignerName: signer, KeyType: keyType, CredentialBundlePath: fmt.Sprintf("%d.pem", len(volume.Sources)),
			}})
		}
	}
	return volume
}

// requestOf returns a request for a pod, without sending it.
func (w *world) requestOf(t testing.TB, pod *corev1.Pod, name string, key crypto.Signer) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: w.signerName(), PodName: pod.Name, PodUID: pod.UID,
			ServiceAccountName: account, ServiceAccountUID: w.account.UID,
			NodeName: types.NodeName(w.node.Name), NodeUID: w.node.UID,
			MaxExpirationSeconds: ptr.To[int32](7200), StubPKCS10Request: stub,
		},
	}
}

// answered waits for the answer to a request.
func (w *world) answered(t testing.TB, name string) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	answered := &certificatesv1beta1.PodCertificateRequest{}
	apitest.Eventually(t, "request "+name+" is answered", func() bool {
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, answered); err != nil {
			t.Fatal(err)
		}
		return len(answered.Status.Conditions) > 0
	})
	return answered
}

// condition describes a condition in a few words.
func condition(r *certificatesv1beta1.PodCertificateRequest) string {
	if len(r.Status.Conditions) != 1 {
		return fmt.Sprint(r.Status.Conditions)
	}
	return r.Status.Conditions[0].Type + " " + r.Status.Conditions[0].Reason
}

// leafOf returns the certificate of a request that must have one.
func leafOf(t testing.TB, r *certificatesv1beta1.PodCertificateRequest) *x509.Certificate {
	t.Helper()
	if got := condition(r); got != "Issued Issued" {
		t.Fatalf("%s is %s: %s", r.Name, got, r.Status.Conditions[0].Message)
	}
	chain, err := pki.ParseCertificates([]byte(r.Status.CertificateChain))
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

// caOf returns the CA in a Secret.
func (w *world) caOf(t testing.TB, secret string) *x509.Certificate {
	t.Helper()
	found, err := w.core.CoreV1().Secrets("kube-system").Get(t.Context(), secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseCertificates(found.Data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}
