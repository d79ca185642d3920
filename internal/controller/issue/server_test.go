package issue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// A Certificate gets its certificate, and another one when it requests
// something different.
func TestIssue(t *testing.T) {
	w := newWorld(t)
	w.create(t, newCertificate("web"))
	w.condition(t, "web", cmv1.CertificateConditionReady, cmmeta.ConditionFalse, issuance.ReasonDoesNotExist)
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonDoesNotExist)
	w.managers(t, w.waiting(t, "web-1"), "cert-manager-certificates-request-manager")
	waits, _ := get[cmv1.Certificate](t, w, "web")
	w.managers(t, waits, "cert-manager-certificates-trigger")

	cert := w.sign(t, "web-1")
	crt := w.issued(t, "web", 1)
	secret := w.holds(t, "web-tls", cert)
	if secret.Type != corev1.SecretTypeTLS || len(secret.OwnerReferences) > 0 ||
		secret.Annotations[cmv1.IssuerGroupAnnotationKey] != "test.example.com" || secret.Labels[cmv1.PartOfCertManagerControllerLabelKey] != "true" {
		t.Errorf("Secret: type %s, metadata %+v", secret.Type, secret.ObjectMeta)
	}
	key, err := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || !pki.SameKey(key.Public(), cert.PublicKey) {
		t.Errorf("the key in the Secret is not the certificate's: %v", err)
	}
	if !crt.Status.NotAfter.Time.Equal(cert.NotAfter) || crt.Status.RenewalTime == nil {
		t.Errorf("status: %+v", crt.Status)
	}
	w.noKeys(t)
	w.managers(t, secret, "cert-manager-certificates-issuing")
	w.managers(t, crt, "cert-manager-certificates-issuing")
	w.told(t, "web", "cert-manager-certificates-trigger", "Issuing", "does not exist")
	w.told(t, "web", "cert-manager-certificates-trigger", "Issuing", "Stored new private key")
	w.told(t, "web", "cert-manager-certificates-trigger", "Issuing", `CertificateRequest resource "web-1"`)
	w.told(t, "web", "cert-manager-certificates-issuing", "Issuing", issuance.MessageIssued)

	w.requester(t, "web-1")

	// A changed spec is a reason for another certificate; the old request is
	// then deleted.
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.DNSNames = append(crt.Spec.DNSNames, "www.example.com") })
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonRequestChanged)
	second := w.sign(t, "web-2")
	w.issued(t, "web", 2)
	w.holds(t, "web-tls", second)
	if pki.SameKey(cert.PublicKey, second.PublicKey) {
		t.Error("the key is the same, although it rotates by default")
	}
	w.gone(t, &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}})

	// A deleted Secret is recreated.
	if err := w.api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	third := w.sign(t, "web-3")
	w.holds(t, "web-tls", third)
	w.issued(t, "web", 3)
}

// A certificate is renewed in time, with the same key if that is to be reused.
func TestRenew(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	crt.Spec.Duration = &metav1.Duration{Duration: time.Hour}
	crt.Spec.RenewBefore = &metav1.Duration{Duration: time.Hour - 3*time.Second}
	crt.Spec.PrivateKey.RotationPolicy = cmv1.RotationPolicyNever
	w.create(t, crt)
	first := w.sign(t, "web-1")
	w.issued(t, "web", 1)
	// If the time of the last request is known, renewals keep a distance from
	// it.
	requested := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web-1"}}
	if err := w.everywhere.Delete(t.Context(), requested); err != nil {
		t.Fatal(err)
	}
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonRenewing)
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.RenewBefore.Duration = 5 * time.Minute })
	second := w.sign(t, "web-2")
	w.issued(t, "web", 2)
	w.holds(t, "web-tls", second)
	if first.Equal(second) || !pki.SameKey(first.PublicKey, second.PublicKey) {
		t.Error("renewed with another key, although spec.privateKey.rotationPolicy is Never")
	}
	w.told(t, "web", "cert-manager-certificates-trigger", "Issuing", `Reusing private key stored in existing Secret resource "web-tls"`)

	// A key that is to be reused cannot change its size.
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.PrivateKey.Size = 384 })
	w.says(t, "web", "rotationPolicy is Never")
	w.told(t, "web", "cert-manager-certificates-key-manager", issuance.ReasonCannotRegenerateKey, "rotationPolicy is Never")
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.PrivateKey.RotationPolicy = cmv1.RotationPolicyAlways })
	third := w.sign(t, "web-3")
	w.issued(t, "web", 3)
	w.holds(t, "web-tls", third)
}

// A request that has its certificate before the issuance begins works like one
// that gets it later.
func TestAnsweredBefore(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	crt.Spec.PrivateKey.RotationPolicy = cmv1.RotationPolicyNever
	w.create(t, crt)
	w.sign(t, "web-1")
	crt = w.issued(t, "web", 1)
	secret, _ := get[corev1.Secret](t, w, "web-tls")
	key, err := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	more := func(crt *cmv1.Certificate) { crt.Spec.DNSNames = append(crt.Spec.DNSNames, "www.example.com") }
	more(crt)
	request, err := issuance.NewRequest(crt, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.create(t, request)
	second := w.sign(t, "web-2")
	w.change(t, "web", more)
	w.issued(t, "web", 2)
	w.holds(t, "web-tls", second)
}

// A failed issuance is tried again after a while, or when a user does something
// about it.
func TestBackoff(t *testing.T) {
	w := newWorld(t)
	w.create(t, newCertificate("web"))
	w.refuse(t, "web-1")
	crt := w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionFalse, cmv1.CertificateRequestReasonFailed)
	if crt.Status.FailedIssuanceAttempts == nil || *crt.Status.FailedIssuanceAttempts != 1 || crt.Status.LastFailureTime == nil {
		t.Errorf("status: %+v", crt.Status)
	}
	w.told(t, "web", "cert-manager-certificates-issuing", cmv1.CertificateRequestReasonFailed, "no such luck")
	eventually(t, w, "web", "has no next key", func(crt *cmv1.Certificate) bool { return crt.Status.NextPrivateKeySecretName == nil })
	w.noKeys(t)

	// It is renewed by hand.
	w.renew(t, "web")
	w.refuse(t, "web-1")
	eventually(t, w, "web", "has failed twice", func(crt *cmv1.Certificate) bool {
		return crt.Status.FailedIssuanceAttempts != nil && *crt.Status.FailedIssuanceAttempts == 2
	})
	// Or the spec changes, even if only the key changes.
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.DNSNames = []string{"better.example.com"} })
	w.refuse(t, "web-1")
	eventually(t, w, "web", "has failed three times", func(crt *cmv1.Certificate) bool {
		return crt.Status.FailedIssuanceAttempts != nil && *crt.Status.FailedIssuanceAttempts == 3
	})
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.PrivateKey.Size = 384 })
	w.sign(t, "web-1")
	crt = w.issued(t, "web", 1)
	if crt.Status.FailedIssuanceAttempts != nil || crt.Status.LastFailureTime != nil {
		t.Errorf("the failures are not forgotten: %+v", crt.Status)
	}
}

// After the wait, the next attempt comes without any user action.
func TestBackoffEnds(t *testing.T) {
	w := newWorldOn(t, tuned.Start(t))
	w.create(t, newCertificate("web"))
	w.refuse(t, "web-1")
	w.sign(t, "web-1")
	w.issued(t, "web", 1)
}

// says waits until the Issuing condition of a Certificate has a message.
func (w *world) says(t testing.TB, name, text string) {
	t.Helper()
	eventually(t, w, name, "says "+text, func(crt *cmv1.Certificate) bool {
		issuing := certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing)
		return issuing != nil && issuing.Status == cmmeta.ConditionTrue && strings.Contains(issuing.Message, text)
	})
}

// If the API refuses something, the Certificate says so.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	foreign := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1"},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: newCertificate("web").Spec.IssuerRef, Request: apitest.NewCSR(t, "web", "example.com/any", pki.Subject{CommonName: "web"}, apitest.NewKey(t)).Spec.Request},
	}
	w.create(t, foreign)
	w.create(t, newCertificate("web"))
	w.says(t, "web", "delete it")
	w.told(t, "web", "cert-manager-certificates-request-manager", issuance.EventRequestFailed, "delete it")
	if err := w.api.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.sign(t, "web-1")
	w.issued(t, "web", 1)

	w.tamper(t, "web-tls", func(s *corev1.Secret) { s.Immutable = ptr.To(true) })
	w.renew(t, "web")
	w.sign(t, "web-2")
	w.says(t, "web", "immutable")
	w.told(t, "web", "cert-manager-certificates-issuing", "SecretNotWritten", "immutable")
	w.gone(t, w.removed(t, "web-tls"))
	w.issued(t, "web", 2)
}

// renew does what a user does to get a new certificate.
func (w *world) renew(t testing.TB, name string) {
	t.Helper()
	apitest.Eventually(t, "renewal is wanted", func() bool {
		crt, _ := get[cmv1.Certificate](t, w, name)
		issuance.SetRenewing(crt, time.Now())
		return w.api.Status().Update(t.Context(), crt) == nil
	})
}

// noKeys waits until no key waits for a certificate.
func (w *world) noKeys(t testing.TB) {
	t.Helper()
	apitest.Eventually(t, "keys are gone that nobody needs", func() bool {
		list := &corev1.SecretList{}
		err := w.api.List(t.Context(), list, client.MatchingLabels{cmv1.IsNextPrivateKeySecretLabelKey: "true"})
		return err == nil && len(list.Items) == 0
	})
}

// gone waits until an object is gone. If the UID is known, another object with
// the same name may exist already.
func (w *world) gone(t testing.TB, o client.Object) {
	t.Helper()
	was := o.GetUID()
	apitest.Eventually(t, o.GetName()+" is gone", func() bool {
		err := w.api.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err) || err == nil && was != "" && o.GetUID() != was
	})
}

// managers checks that these managers have written fields of an object.
func (w *world) managers(t testing.TB, o client.Object, names ...string) {
	t.Helper()
	for _, name := range names {
		if !slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == name }) {
			t.Errorf("%s has no fields of %s: %v", o.GetName(), name, o.GetManagedFields())
		}
	}
}

// requester checks that a request names the controller's service account as its
// requester, as requests of any service account do.
func (w *world) requester(t testing.TB, name string) {
	t.Helper()
	request, ok := get[cmv1.CertificateRequest](t, w, name)
	if !ok {
		t.Fatalf("there is no request %s", name)
	}
	credential := request.Spec.Extra["authentication.kubernetes.io/credential-id"]
	if request.Spec.Username != "system:serviceaccount:kube-system:cert-manager-certificates" || uuid.Validate(request.Spec.UID) != nil ||
		len(credential) != 1 || !strings.HasPrefix(credential[0], "JTI=") {
		t.Errorf("requester: username %q, uid %q, extra %q", request.Spec.Username, request.Spec.UID, request.Spec.Extra)
	}
}

// told waits for an Event about a Certificate.
func (w *world) told(t testing.TB, name, component, reason, text string) {
	t.Helper()
	defer func() {
		if crt, ok := get[cmv1.Certificate](t, w, name); ok && t.Failed() {
			t.Logf("%s is %s", name, describe(crt))
		}
	}()
	apitest.Eventually(t, component+" tells of "+reason+": "+text, func() bool {
		list := &eventsv1.EventList{}
		if err := w.api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.ReportingController == component && e.Reason == reason && strings.Contains(e.Note, text)
		})
	})
}
