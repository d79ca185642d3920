package signers_test

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const (
	signerName = "example.com/client"
	// caNamespace is where the Secrets of CAs are.
	caNamespace = "kube-system"
)

// world is a server with clients that have all rights.
type world struct {
	*apitest.Server
	core kubernetes.Interface
	api  client.Client
}

func newWorld(t testing.TB, server *apitest.Server) *world {
	t.Helper()
	w := &world{Server: server}
	w.connect(t)
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

// newSigner returns a Signer that issues client certificates to any requester.
func newSigner(name string, ca v1alpha1.SignerCA) *v1alpha1.Signer {
	return &v1alpha1.Signer{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.SignerSpec{
			SignerName: signerName,
			Requests:   []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
			CA:         ca,
			Profile: v1alpha1.SignerProfile{
				Subject:  v1alpha1.SubjectProfile{FromRequest: true},
				Usages:   []string{"digital signature", "client auth"},
				Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: 2 * time.Hour}},
			},
		},
	}
}

func generated() v1alpha1.SignerCA { return v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}} }

func fromSecret(name string) v1alpha1.SignerCA {
	return v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: name}}
}

func (w *world) create(t testing.TB, o client.Object) {
	t.Helper()
	if err := w.api.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// is waits until a Signer's Ready condition has this status and reason.
func (w *world) is(t testing.TB, name string, status metav1.ConditionStatus, reason string) *v1alpha1.Signer {
	t.Helper()
	return w.signer(t, name, "is "+string(status)+" "+reason, func(s *v1alpha1.Signer) bool {
		ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.Ready)
		return ready != nil && ready.Status == status && ready.Reason == reason
	})
}

// signer waits for a Signer that is as it should be.
func (w *world) signer(t testing.TB, name, what string, holds func(*v1alpha1.Signer) bool) *v1alpha1.Signer {
	t.Helper()
	s := &v1alpha1.Signer{}
	defer func() {
		if t.Failed() {
			t.Logf("status of %s: %+v", name, s.Status)
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

// change changes a Signer, even while other clients do so.
func (w *world) change(t testing.TB, name string, change func(*v1alpha1.Signer)) {
	t.Helper()
	s := &v1alpha1.Signer{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: name}, s); err != nil {
		t.Fatal(err)
	}
	before := s.DeepCopy()
	change(s)
	if err := w.api.Patch(t.Context(), s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// newCA returns a Secret with a CA.
func newCA(t testing.TB, name, commonName string, lifetime time.Duration) *corev1.Secret {
	t.Helper()
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, commonName, key, lifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: caNamespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(root.Certificate()), corev1.TLSPrivateKeyKey: keyPEM},
	}
}

// request creates an approved request of a user with this name.
func (w *world) request(t testing.TB, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := apitest.Create(t, w.core, apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t)))
	return apitest.Decide(t, w.core, csr, certificatesv1.CertificateApproved)
}

// issue returns the certificate that a user gets.
func (w *world) issue(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	chain, err := pki.ParseCertificates(apitest.Issued(t, w.core, w.request(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

// ca returns the certificate in a Secret under a key, or nil.
func (w *world) ca(t testing.TB, secret, key string) *x509.Certificate {
	t.Helper()
	found, err := w.core.CoreV1().Secrets(caNamespace).Get(t.Context(), secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Data[key]) == 0 {
		return nil
	}
	chain, err := pki.ParseCertificates(found.Data[key])
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

// trusted returns the published roots of the signer, in any bundle.
func (w *world) trusted(t testing.TB) []*x509.Certificate {
	t.Helper()
	bundles, err := w.core.CertificatesV1().ClusterTrustBundles().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signerName})
	if err != nil {
		t.Fatal(err)
	}
	var roots []*x509.Certificate
	for _, bundle := range bundles.Items {
		certs, err := pki.ParseCertificates([]byte(bundle.Spec.TrustBundle))
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, certs...)
	}
	return roots
}

// verifies reports whether the published roots verify a certificate.
func (w *world) verifies(t testing.TB, leaf *x509.Certificate) bool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, root := range w.trusted(t) {
		pool.AddCert(root)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}
