package issue_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/run/server"
)

// byHand leaves the approval of requests to the tests.
func byHand(cfg *server.Config) { cfg.Controllers = []string{"*", "-certificaterequests-approver"} }

// A request that failed does not end the next attempt, even if the key is
// reused and the next attempt comes within a second. The reason of the failure
// does not matter, nor whether its issuer set a failure time. The Certificate
// reports the failure.
func TestAnotherAttempt(t *testing.T) {
	w := newWorldOn(t, apitest.Start(t, byHand))
	crt := newCertificate("web")
	crt.Spec.IssuerRef, crt.Spec.PrivateKey.RotationPolicy = cmmeta.IssuerReference{Name: "us"}, cmv1.RotationPolicyNever
	w.create(t, crt)
	first := w.sign(t, "web-1")
	w.issued(t, "web", 1)
	var last types.UID
	for _, tc := range []struct {
		kind   cmv1.CertificateRequestConditionType
		status cmmeta.ConditionStatus
		reason string
	}{
		{cmv1.CertificateRequestConditionDenied, cmmeta.ConditionTrue, "NotOnFridays"},
		{cmv1.CertificateRequestConditionInvalidRequest, cmmeta.ConditionTrue, "TooWild"},
		{cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, cmv1.CertificateRequestReasonFailed},
	} {
		w.renew(t, "web")
		cr := w.another(t, "web-2", last)
		last = cr.UID
		w.answer(t, cr, tc.kind, tc.status, tc.reason, "because of "+tc.reason)
		crt := w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionFalse, tc.reason)
		message := certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing).Message
		for _, want := range []string{"The certificate request has failed to complete and will be retried: because of " + tc.reason, "certplane renew"} {
			if !strings.Contains(message, want) {
				t.Errorf("%s: %q, want %q", tc.kind, message, want)
			}
		}
		if !certmanager.CertificateIs(crt, cmv1.CertificateConditionReady) {
			t.Errorf("%s: what is there is no longer ready", tc.kind)
		}
	}
	w.renew(t, "web")
	second := w.signNow(t, w.another(t, "web-2", last))
	w.issued(t, "web", 2)
	w.holds(t, "web-tls", second)
	if !pki.SameKey(first.PublicKey, second.PublicKey) {
		t.Error("the key has changed")
	}
}

// another waits for a request other than the previous one.
func (w *world) another(t testing.TB, name string, before types.UID) *cmv1.CertificateRequest {
	t.Helper()
	return eventually(t, w, name, "is another one", func(cr *cmv1.CertificateRequest) bool { return cr.UID != before })
}

// If Certificates that are created at the same moment name one Secret, one is
// issued and the other does not start.
func TestDuplicateSecretNameAtOnce(t *testing.T) {
	w := newWorldOn(t, crowded.Start(t))
	w.newSigners(t)
	const pairs = 8
	var made sync.WaitGroup
	errs := make(chan error, 2*pairs)
	for i := range pairs {
		for _, name := range []string{"a", "b"} {
			crt := newCertificate(fmt.Sprintf("%s-%d", name, i))
			crt.Spec.SecretName, crt.Spec.IssuerRef = fmt.Sprintf("tls-%d", i), cmmeta.IssuerReference{Name: "ca"}
			made.Go(func() { errs <- w.api.Create(t.Context(), crt) })
		}
	}
	made.Wait()
	close(errs)
	var failed []error
	for err := range errs {
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	for i := range pairs {
		a, b := fmt.Sprintf("a-%d", i), fmt.Sprintf("b-%d", i)
		apitest.Eventually(t, a+" or "+b+" is ready, the other one is not", func() bool {
			return w.isReady(t, a) && w.hasYielded(t, b) || w.isReady(t, b) && w.hasYielded(t, a)
		})
	}
	list := &cmv1.CertificateRequestList{}
	if err := w.api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	requests := map[string]int{}
	for _, cr := range list.Items {
		if requests[cr.Annotations[cmv1.CertificateNameKey]]++; requests[cr.Annotations[cmv1.CertificateNameKey]] > 1 {
			t.Errorf("another request of one Certificate: %s", cr.Name)
		}
	}
}

func (w *world) isReady(t testing.TB, name string) bool {
	t.Helper()
	crt, _ := get[cmv1.Certificate](t, w, name)
	return certmanager.CertificateIs(crt, cmv1.CertificateConditionReady) && certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing) == nil
}

func (w *world) hasYielded(t testing.TB, name string) bool {
	t.Helper()
	crt, _ := get[cmv1.Certificate](t, w, name)
	ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	return ready != nil && ready.Reason == issuance.ReasonIncorrectCertificate && crt.Status.NextPrivateKeySecretName == nil &&
		certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing) == nil
}

// An issuance that waits for an issuer reports that, and continues by itself. A
// different issuer is a reason for another certificate.
func TestWaitsForIssuer(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	crt.Spec.IssuerRef = cmmeta.IssuerReference{Name: "ca"}
	w.create(t, crt)
	w.says(t, "web", `CertificateRequest "web-1" waits for its issuer: `)
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonDoesNotExist)
	w.newSigners(t)
	w.issued(t, "web", 1)

	w.change(t, "web", func(crt *cmv1.Certificate) {
		crt.Spec.IssuerRef = cmmeta.IssuerReference{Name: w.clusterWide("self"), Kind: cmv1.ClusterIssuerKind}
	})
	w.issued(t, "web", 2)
	secret, _ := get[corev1.Secret](t, w, "web-tls")
	if issued := leaf(t, secret); issued.CheckSignatureFrom(issued) != nil && issued.Issuer.String() != issued.Subject.String() {
		t.Errorf("issued by %v", issued.Issuer)
	}
	if got := secret.Annotations[cmv1.IssuerKindAnnotationKey]; got != cmv1.ClusterIssuerKind {
		t.Errorf("the Secret is of a %q", got)
	}
}

// Names can be as long as the API allows.
func TestLongName(t *testing.T) {
	w := newWorld(t)
	w.newSigners(t)
	long := strings.Repeat("n", 253)
	crt := newCertificate(long)
	crt.Spec.SecretName, crt.Spec.DNSNames, crt.Spec.IssuerRef = "tls", []string{"example.com"}, cmmeta.IssuerReference{Name: "ca"}
	w.create(t, crt)
	w.issued(t, long, 1)
	w.renew(t, long)
	w.issued(t, long, 2)
}

// After a restore of Certificates without their status, existing certificates
// are not issued again, and the revision continues.
func TestRestore(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	w.create(t, crt)
	cert := w.sign(t, "web-1")
	w.issued(t, "web", 1)
	secret := w.holds(t, "web-tls", cert)
	cr, _ := get[cmv1.CertificateRequest](t, w, "web-1")
	if err := w.api.Delete(t.Context(), crt, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.gone(t, crt)
	w.gone(t, w.removed(t, "web-tls"))

	secret.ResourceVersion, secret.UID, secret.ManagedFields = "", "", nil
	w.create(t, secret)
	old := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "web-7", Annotations: cr.Annotations}, Spec: cmv1.CertificateRequestSpec{
		Request: cr.Spec.Request, IssuerRef: cr.Spec.IssuerRef, Usages: cr.Spec.Usages,
	}}
	old.Annotations[cmv1.CertificateRequestRevisionAnnotationKey] = "7"
	w.create(t, old)
	w.create(t, newCertificate("web"))
	again := w.issued(t, "web", 7)
	if !leaf(t, w.secretOf(t, "web", "web-tls")).Equal(cert) || again.Status.NotAfter == nil || !again.Status.NotAfter.Time.Equal(cert.NotAfter) {
		t.Errorf("another certificate: %+v", again.Status)
	}
	w.renew(t, "web")
	w.sign(t, "web-8")
	w.issued(t, "web", 8)
}

// Of two requests for the same certificate, one stays.
func TestTwoRequests(t *testing.T) {
	w := newWorld(t)
	w.create(t, newCertificate("web"))
	cr := w.waiting(t, "web-1")
	other := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "twin", Annotations: cr.Annotations, OwnerReferences: cr.OwnerReferences},
		Spec:       cmv1.CertificateRequestSpec{Request: cr.Spec.Request, IssuerRef: cr.Spec.IssuerRef, Usages: cr.Spec.Usages},
	}
	w.create(t, other)
	w.gone(t, other)
	cert := w.signNow(t, cr)
	w.issued(t, "web", 1)
	w.holds(t, "web-tls", cert)
}
