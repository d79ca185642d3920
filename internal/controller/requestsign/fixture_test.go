package requestsign_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// The servers that tests share. Tests that need cluster-wide names start their
// own.
var (
	common apitest.Shared
	// byHand leaves approvals to the tests.
	byHand = apitest.Shared{Options: []func(*server.Config){func(cfg *server.Config) {
		cfg.Controllers = []string{"*", "-certificaterequests-approver"}
	}}}
)

func TestMain(m *testing.M) { apitest.Main(m, &common, &byHand) }

// world is a server and its administrator.
type world struct {
	*apitest.Server
	// namespace is where admin reads and writes objects that name no other
	// namespace.
	namespace         string
	admin, everywhere client.Client
}

// start starts a server for one test, which works in the namespace default.
func start(t *testing.T) world {
	t.Helper()
	return newWorld(t, apitest.Start(t), "default")
}

// share returns a shared server, with a namespace for the test.
func share(t *testing.T, s *apitest.Shared) world {
	t.Helper()
	running := s.Start(t)
	return newWorld(t, running, apitest.OwnNamespace(t, apitest.Client(t, running.Admin(t))))
}

func newWorld(t *testing.T, s *apitest.Server, namespace string) world {
	t.Helper()
	w := world{Server: s, namespace: namespace, everywhere: connect(t, s.Admin(t))}
	w.admin = client.NewNamespacedClient(w.everywhere, namespace)
	return w
}

func connect(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	connected, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

func (w world) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		admin := w.admin
		if object.GetNamespace() != "" {
			admin = w.everywhere
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func selfSigned(name string) *cmv1.Issuer {
	return &cmv1.Issuer{ObjectMeta: meta("", name), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{
		SelfSigned: &cmv1.SelfSignedIssuer{},
	}}}
}

func withCA(secret string) cmv1.IssuerSpec {
	return cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: secret}}}
}

func caIssuer(name, secret string) *cmv1.Issuer {
	return &cmv1.Issuer{ObjectMeta: meta("", name), Spec: withCA(secret)}
}

// newCA returns a Secret with a root CA.
func newCA(t *testing.T, namespace, name string, key crypto.Signer) *corev1.Secret {
	t.Helper()
	return rootFor(t, namespace, name, key, 400*24*time.Hour)
}

// longCA returns a root CA that outlives every certificate that it can be asked
// for.
func longCA(t *testing.T, namespace, name string, key crypto.Signer) *corev1.Secret {
	t.Helper()
	return rootFor(t, namespace, name, key, 20000*time.Hour)
}

func rootFor(t *testing.T, namespace, name string, key crypto.Signer, lifetime time.Duration) *corev1.Secret {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root of "+name, key, lifetime, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	secret := keySecret(t, name, key)
	secret.Namespace = namespace
	secret.Data[corev1.TLSCertKey] = pki.EncodeCertificates(root.Certificate())
	secret.Data[cmmeta.TLSCAKey] = pki.EncodeCertificates(root.Certificate())
	return secret
}

func keySecret(t *testing.T, name string, key crypto.Signer) *corev1.Secret {
	t.Helper()
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: meta("", name), Data: map[string][]byte{corev1.TLSPrivateKeyKey: data}}
}

// request returns a request, without sending it.
func request(t *testing.T, name string, ref cmmeta.IssuerReference, key crypto.Signer) *cmv1.CertificateRequest {
	t.Helper()
	csr, err := pki.NewRequest(pki.Subject{CommonName: name, DNSNames: []string{name + ".example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &cmv1.CertificateRequest{ObjectMeta: meta("", name), Spec: cmv1.CertificateRequestSpec{IssuerRef: ref, Request: csr}}
}

// keyIn sets the name of the Secret with the key of a request.
func keyIn(cr *cmv1.CertificateRequest, secret string) *cmv1.CertificateRequest {
	metav1.SetMetaDataAnnotation(&cr.ObjectMeta, cmv1.CertificateRequestPrivateKeyAnnotationKey, secret)
	return cr
}

// keys returns a key of each kind.
func keys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"rsa": rsaKey, "ecdsa": apitest.NewKey(t), "ed25519": edKey}
}

// becomes waits until a request has a Ready condition with this reason.
func (w world) becomes(t *testing.T, name, reason string) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	apitest.Eventually(t, name+" is "+reason, func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		return api.ReadyReason(cr) == reason
	})
	return cr
}

func (w world) decide(t *testing.T, name string, kind cmv1.CertificateRequestConditionType) {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, cr); err != nil {
		t.Fatal(err)
	}
	api.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, "Test", "decided by a test", metav1.Now())
	if err := w.admin.Status().Update(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
}

// told waits for an Event about an object and returns its note.
func (w world) told(t *testing.T, name, component, kind, reason string) string {
	t.Helper()
	note := ""
	apitest.Eventually(t, reason+" of "+name+" by "+component, func() bool {
		list := &eventsv1.EventList{}
		if err := w.admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.ReportingController == component && e.Type == kind && e.Reason == reason
		})
		if i >= 0 {
			note = list.Items[i].Note
		}
		return i >= 0
	})
	return note
}

// verified checks that a request has a certificate for its key, below its CA.
func verified(t *testing.T, cr *cmv1.CertificateRequest, key crypto.Signer) *x509.Certificate {
	t.Helper()
	chain, err := pki.ParseBundle(cr.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cr.Status.CA) {
		t.Fatalf("no CA in %q", cr.Status.CA)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
	if !pki.SameKey(chain[0].PublicKey, key.Public()) {
		t.Error("the certificate has another key")
	}
	return chain[0]
}
