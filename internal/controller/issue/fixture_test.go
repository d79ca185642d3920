package issue_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/run/server"
)

// The servers that tests share. Tests that need another one start their own.
var (
	common apitest.Shared
	// crowded is for tests with so many Certificates that Events of other tests
	// would be dropped.
	crowded apitest.Shared
	// tuned has Certificates own their Secrets, and retries soon.
	tuned = apitest.Shared{Options: []func(*server.Config){func(c *server.Config) {
		c.CertManager.EnableCertificateOwnerRef = true
		c.CertManager.BackoffMin.Duration = time.Second
	}}}
	// untended leaves Certificates to the controllers of the tests.
	untended = apitest.Shared{Options: []func(*server.Config){func(c *server.Config) { c.Controllers = []string{"*", "-certificates"} }}}
)

func TestMain(m *testing.M) { apitest.Main(m, &common, &crowded, &tuned, &untended) }

// world is a server, a client that has all rights in a namespace of the test's,
// and an issuer that the tests play: it answers when and as they say.
type world struct {
	*apitest.Server
	namespace string
	api       client.Client
	// everywhere is the client for all namespaces.
	everywhere client.Client
	ca         *pki.Authority
	now        func() time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, common.Start(t))
}

func newWorldOn(t testing.TB, s *apitest.Server) *world {
	t.Helper()
	return newWorldIn(t, s, apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t))))
}

func newWorldIn(t testing.TB, s *apitest.Server, namespace string) *world {
	t.Helper()
	w := &world{Server: s, namespace: namespace, now: time.Now}
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), certmanager.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.everywhere, err = client.New(w.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	w.api = client.NewNamespacedClient(w.everywhere, namespace)
	if w.ca, err = pki.NewRoot(pki.UnrecordedSigning, "Test", apitest.NewKey(t), 10*24*time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	return w
}

// newCertificate returns a Certificate of the issuer that the tests play.
func newCertificate(name string) *cmv1.Certificate {
	return &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: cmv1.CertificateSpec{
			SecretName: name + "-tls", DNSNames: []string{name + ".example.com"},
			IssuerRef:  cmmeta.IssuerReference{Group: "test.example.com", Kind: "Player", Name: "us"},
			PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
		},
	}
}

func (w *world) create(t testing.TB, o client.Object) {
	t.Helper()
	if err := w.api.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// get returns an object as it is now; ok is false if it does not exist.
func get[T any, O interface {
	*T
	client.Object
}](t testing.TB, w *world, name string) (object O, ok bool) {
	t.Helper()
	object = O(new(T))
	err := w.api.Get(t.Context(), client.ObjectKey{Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatalf("reading %T %s: %v", object, name, err)
	}
	return object, err == nil
}

// eventually waits for an object that is as it should be.
func eventually[T any, O interface {
	*T
	client.Object
}](t testing.TB, w *world, name, what string, holds func(O) bool) O {
	t.Helper()
	var last O
	defer func() {
		if t.Failed() {
			t.Logf("%s is %s", name, describe(last))
		}
	}()
	apitest.Eventually(t, name+" "+what, func() bool {
		object, ok := get[T, O](t, w, name)
		last = object
		return ok && holds(object)
	})
	return last
}

// describe returns the conditions of an object, and no keys.
func describe(o client.Object) string {
	switch o := o.(type) {
	case *cmv1.Certificate:
		return fmt.Sprintf("%+v", o.Status)
	case *cmv1.CertificateRequest:
		return fmt.Sprintf("%+v", o.Status.Conditions)
	}
	return fmt.Sprintf("%T", o)
}

// change changes a Certificate, even while other clients do so.
func (w *world) change(t testing.TB, name string, change func(*cmv1.Certificate)) {
	t.Helper()
	crt, _ := get[cmv1.Certificate](t, w, name)
	before := crt.DeepCopy()
	change(crt)
	if err := w.api.Patch(t.Context(), crt, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// condition waits until a condition of a Certificate has a status and reason.
func (w *world) condition(t testing.TB, name string, kind cmv1.CertificateConditionType, status cmmeta.ConditionStatus, reason string) *cmv1.Certificate {
	t.Helper()
	return eventually(t, w, name, "is "+string(kind)+"="+string(status)+" "+reason, func(crt *cmv1.Certificate) bool {
		c := certmanager.CertificateCondition(crt, kind)
		return c != nil && c.Status == status && c.Reason == reason
	})
}

// issued waits until a Certificate is ready and has reached this revision.
func (w *world) issued(t testing.TB, name string, revision int) *cmv1.Certificate {
	t.Helper()
	return eventually(t, w, name, "is ready", func(crt *cmv1.Certificate) bool {
		return crt.Status.Revision != nil && *crt.Status.Revision == revision &&
			certmanager.CertificateIs(crt, cmv1.CertificateConditionReady) &&
			certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing) == nil &&
			crt.Status.NextPrivateKeySecretName == nil
	})
}

// waiting waits for a request and returns it.
func (w *world) waiting(t testing.TB, name string) *cmv1.CertificateRequest {
	t.Helper()
	return eventually(t, w, name, "waits", func(cr *cmv1.CertificateRequest) bool { return certmanager.ReadyReason(cr) == "" })
}

// sign answers a request with a certificate.
func (w *world) sign(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	return w.signNow(t, w.waiting(t, name))
}

func (w *world) signNow(t testing.TB, cr *cmv1.CertificateRequest) *x509.Certificate {
	t.Helper()
	asked, err := issuing.RequestOf(request.FromCertificateRequest(cr))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := ca.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, asked, &cmv1.CAIssuer{}, w.ca, w.now())
	if err != nil {
		t.Fatal(err)
	}
	cr.Status.Certificate, cr.Status.CA = signed.PEM, signed.CA
	w.answer(t, cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionTrue, cmv1.CertificateRequestReasonIssued, "signed")
	return signed.Certificate
}

// refuse answers a request with a failure.
func (w *world) refuse(t testing.TB, name string) {
	t.Helper()
	cr := w.waiting(t, name)
	now := metav1.NewTime(w.now())
	cr.Status.FailureTime = &now
	w.answer(t, cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, cmv1.CertificateRequestReasonFailed, "no such luck")
}

func (w *world) answer(t testing.TB, cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType, status cmmeta.ConditionStatus, reason, message string) {
	t.Helper()
	certmanager.SetRequestCondition(cr, kind, status, reason, message, metav1.Now())
	if err := w.api.Status().Update(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
}

// leaf returns the certificate in a Secret.
func leaf(t testing.TB, s *corev1.Secret) *x509.Certificate {
	t.Helper()
	chain, err := pki.ParseCertificates(s.Data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

// holds waits until a Secret has this certificate.
func (w *world) holds(t testing.TB, secret string, cert *x509.Certificate) *corev1.Secret {
	t.Helper()
	return eventually(t, w, secret, "holds the certificate", func(s *corev1.Secret) bool { return leaf(t, s).Equal(cert) })
}
