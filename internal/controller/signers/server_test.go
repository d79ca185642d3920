package signers_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// A Signer signs, changes and ends without a restart, and keeps its state
// across one.
func TestLife(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	waiting := w.request(t, "early") // no signer signs it yet
	w.create(t, newSigner("clients", generated()))
	s := w.is(t, "clients", metav1.ConditionTrue, "Signing")
	apitest.Issued(t, w.core, waiting)
	leaf := w.issue(t, "alice")
	if s.Status.CA == nil || s.Status.CA.Fingerprint != pki.Fingerprint(w.ca(t, "signer-clients", corev1.TLSCertKey)) || leaf.Issuer.CommonName != signerName {
		t.Errorf("CA %+v, issuer %s", s.Status.CA, leaf.Issuer)
	}
	apitest.Eventually(t, "the root is published", func() bool { return w.verifies(t, leaf) })

	csr := apitest.NewCSR(t, "server", signerName, pki.Subject{CommonName: "server"}, apitest.NewKey(t))
	csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.UsageServerAuth)
	apitest.Decide(t, w.core, apitest.Create(t, w.core, csr), certificatesv1.CertificateApproved)
	apitest.Eventually(t, "a request beyond the profile fails", func() bool {
		latest, err := w.core.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "server", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		failed := certificates.Condition(latest, certificatesv1.CertificateFailed)
		return failed != nil && failed.Reason == "UsageNotPermitted"
	})

	// The counts are written at the end at the latest.
	w.Restart(t)
	w.connect(t)
	again := w.is(t, "clients", metav1.ConditionTrue, "Signing")
	if again.Status.Issued != 2 || again.Status.Refused != 1 || again.Status.CA.Fingerprint != s.Status.CA.Fingerprint {
		t.Errorf("after a restart: %+v", again.Status)
	}
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Spec.Profile.Usages = append(s.Spec.Profile.Usages, "server auth") })
	w.signer(t, "clients", "has seen the change", func(s *v1alpha1.Signer) bool { return s.Status.ObservedGeneration == s.Generation })

	if err := w.api.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the bundle of a Signer that is gone says until when it stays", func() bool {
		bundles, err := w.core.CertificatesV1().ClusterTrustBundles().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signerName})
		return err == nil && len(bundles.Items) == 1 && bundles.Items[0].Annotations["certplane.dev/trusted-until"] != ""
	})
	late := w.request(t, "late")
	// One controller signs for all Signers. When it has signed a newer request,
	// it has also looked at the late one.
	others := newSigner("others", generated())
	others.Spec.SignerName = "example.com/others"
	w.create(t, others)
	next := apitest.Create(t, w.core, apitest.NewCSR(t, "next", others.Spec.SignerName, pki.Subject{CommonName: "next"}, apitest.NewKey(t)))
	apitest.Issued(t, w.core, apitest.Decide(t, w.core, next, certificatesv1.CertificateApproved))
	latest, err := w.core.CertificatesV1().CertificateSigningRequests().Get(t.Context(), late.Name, metav1.GetOptions{})
	if err != nil || len(latest.Status.Certificate) > 0 {
		t.Errorf("signed without a Signer: %v", err)
	}
}

// A CA whose client certificates the API honours issues none above
// authorization, whatever its source in a Signer.
func TestHonoured(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.create(t, w.ClientCASecret(t, caNamespace, "ca"))
	w.create(t, newSigner("clients", fromSecret("ca")))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	request := apitest.NewCSR(t, "mallory", signerName, pki.Subject{CommonName: "mallory", Organizations: []string{"system:masters"}}, apitest.NewKey(t))
	apitest.Decide(t, w.core, apitest.Create(t, w.core, request), certificatesv1.CertificateApproved)
	apitest.Eventually(t, "it is refused", func() bool {
		c, err := w.core.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "mallory", metav1.GetOptions{})
		return err == nil && len(c.Status.Conditions) == 2 && c.Status.Conditions[1].Type == certificatesv1.CertificateFailed &&
			strings.Contains(c.Status.Conditions[1].Message, "group system:masters cannot be requested")
	})
	w.issue(t, "alice")
}

// If two Signers have one name, which two API servers can admit at the same
// time, the older one signs. When it is deleted, the other signs.
func TestDuplicate(t *testing.T) {
	w := newWorld(t, apitest.Start(t, func(c *server.Config) { c.Admission.DisabledPlugins = []string{"Signer"} }))
	first := newSigner("first", generated())
	w.create(t, first)
	w.is(t, "first", metav1.ConditionTrue, "Signing")
	second := newSigner("second", generated())
	w.create(t, second)
	w.is(t, "second", metav1.ConditionFalse, "DuplicateSignerName")
	if issuer := w.issue(t, "alice"); issuer.CheckSignatureFrom(w.ca(t, "signer-first", corev1.TLSCertKey)) != nil {
		t.Error("the younger one signs")
	}
	if err := w.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.is(t, "second", metav1.ConditionTrue, "Signing")
	if issuer := w.issue(t, "bob"); issuer.CheckSignatureFrom(w.ca(t, "signer-second", corev1.TLSCertKey)) != nil {
		t.Error("the remaining one does not sign")
	}
}

// A CA in a Secret is used as soon as it is complete. While its replacement is
// not complete, the previous CA keeps signing.
func TestSecret(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.create(t, newSigner("clients", fromSecret("ca")))
	missing := w.is(t, "clients", metav1.ConditionFalse, "CANotFound")
	if message := missing.Status.Conditions[0].Message; !strings.Contains(message, "kubectl --namespace kube-system create secret tls ca") {
		t.Errorf("message %q", message)
	}
	waiting := w.request(t, "early")
	secret := newCA(t, "ca", "one", 24*time.Hour)
	w.create(t, secret)
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	apitest.Issued(t, w.core, waiting)

	next := newCA(t, "ca", "two", 24*time.Hour)
	half := secret.DeepCopy()
	half.Data[corev1.TLSCertKey] = next.Data[corev1.TLSCertKey]
	w.update(t, half)
	w.is(t, "clients", metav1.ConditionTrue, "CAInvalid")
	if leaf := w.issue(t, "alice"); leaf.Issuer.CommonName != "one" {
		t.Errorf("%s signs", leaf.Issuer)
	}
	half.Data = next.Data
	w.update(t, half)
	s := w.is(t, "clients", metav1.ConditionTrue, "Signing")
	leaf := w.issue(t, "bob")
	if leaf.Issuer.CommonName != "two" || len(s.Status.FormerCAs) != 1 || s.Status.FormerCAs[0].Subject != "CN=one" {
		t.Errorf("%s signs, before %+v", leaf.Issuer, s.Status.FormerCAs)
	}
	if former, now := s.Status.FormerCAs[0], s.Status.CA; former.ReplacedTime == nil || former.SubjectKeyID == "" || now.SubjectKeyID != hex.EncodeToString(leaf.AuthorityKeyId) {
		t.Errorf("the former CA is %+v, the present one %+v", former, now)
	}
	if until := time.Until(s.Status.FormerCAs[0].TrustedUntil.Time); until < 2*time.Hour || until > 2*time.Hour+10*time.Minute {
		t.Errorf("the old root is trusted for %v, and its certificates live for 2h", until)
	}
	apitest.Eventually(t, "both roots are published", func() bool {
		one, two := false, false
		for _, root := range w.trusted(t) {
			one, two = one || root.Subject.CommonName == "one", two || root.Subject.CommonName == "two"
		}
		return one && two
	})
}

func (w *world) update(t testing.TB, secret *corev1.Secret) {
	t.Helper()
	latest := &corev1.Secret{}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(secret), latest); err != nil {
		t.Fatal(err)
	}
	latest.Data = secret.Data
	if err := w.api.Update(t.Context(), latest); err != nil {
		t.Fatal(err)
	}
}

// A generated CA is replaced when a user requests that. Its successor is
// trusted before it signs, and the replaced CA is trusted as long as its
// certificates are valid.
func TestRotation(t *testing.T) {
	w := newWorld(t, apitest.Start(t, propagating(5*time.Second)))
	w.create(t, newSigner("clients", generated()))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	before := w.issue(t, "before")
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Annotations = map[string]string{"certplane.dev/rotate-ca": "1"} })
	var next string
	apitest.Eventually(t, "the next CA is there", func() bool {
		cert := w.ca(t, "signer-clients", "next.crt")
		if cert == nil {
			return false
		}
		next = pki.Fingerprint(cert)
		return true
	})
	apitest.Eventually(t, "its root is published before it signs", func() bool {
		if pki.Fingerprint(w.ca(t, "signer-clients", corev1.TLSCertKey)) == next {
			t.Fatal("it signs already")
		}
		for _, root := range w.trusted(t) {
			if pki.Fingerprint(root) == next {
				return true
			}
		}
		return false
	})
	w.signer(t, "clients", "shows when its next CA signs", func(s *v1alpha1.Signer) bool {
		return s.Status.NextCA != nil && s.Status.NextCA.Fingerprint == next && s.Status.NextCA.SignsFrom != nil && s.Status.CA.Fingerprint != next
	})
	s := w.signer(t, "clients", "signs with the next CA", func(s *v1alpha1.Signer) bool { return s.Status.CA.Fingerprint == next })
	if len(s.Status.FormerCAs) != 1 || s.Status.NextCA != nil || w.ca(t, "signer-clients", "next.crt") != nil {
		t.Errorf("status %+v", s.Status)
	}
	after := w.issue(t, "after")
	if !w.verifies(t, before) || !w.verifies(t, after) {
		t.Error("not all certificates can be verified")
	}
}

// propagating sets how long the root of a next CA is published before that CA signs.
func propagating(d time.Duration) func(*server.Config) {
	return func(c *server.Config) { c.DeclaredSigners.Propagation.Duration = d }
}

const takesOver = "certplane.dev/next-takes-over"

// setTakesOver writes the time at which the next CA signs by hand.
func (w *world) setTakesOver(t testing.TB, value any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{takesOver: value}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.core.CoreV1().Secrets(caNamespace).Patch(t.Context(), "signer-clients", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// takesOverBecomes waits until the controller has written that time.
func (w *world) takesOverBecomes(t testing.TB, what string, holds func(time.Time) bool) {
	t.Helper()
	apitest.Eventually(t, what, func() bool {
		secret, err := w.core.CoreV1().Secrets(caNamespace).Get(t.Context(), "signer-clients", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, secret.Annotations[takesOver])
		return err == nil && holds(at)
	})
}

// prepare has the next CA of the Signer made, and returns its fingerprint.
func (w *world) prepare(t testing.TB) string {
	t.Helper()
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Annotations = map[string]string{"certplane.dev/rotate-ca": "1"} })
	s := w.signer(t, "clients", "has a next CA", func(s *v1alpha1.Signer) bool { return s.Status.NextCA != nil })
	return s.Status.NextCA.Fingerprint
}

// The next CA does not sign because its time was removed, damaged or set by hand: it
// waits as long as if its root had just been published.
func TestDamagedTimeDoesNotSign(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.create(t, newSigner("clients", generated()))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	next := w.prepare(t)
	inTenMinutes := func(at time.Time) bool { return time.Until(at) > 9*time.Minute && time.Until(at) < 11*time.Minute }
	w.takesOverBecomes(t, "it is scheduled", inTenMinutes)
	for _, value := range []any{nil, "soon", time.Time{}.Format(time.RFC3339)} {
		w.setTakesOver(t, value)
		w.takesOverBecomes(t, "it is scheduled again", inTenMinutes)
		if pki.Fingerprint(w.ca(t, "signer-clients", corev1.TLSCertKey)) == next {
			t.Fatalf("it signs after the time was set to %v", value)
		}
	}
}

// A next CA whose root no verifier can have does not sign, whatever the clock says,
// until a person says that the root is distributed.
func TestUnpublishedDoesNotSign(t *testing.T) {
	w := newWorld(t, apitest.Start(t, propagating(0)))
	s := newSigner("clients", generated())
	s.Spec.PublishTrustBundle = new(bool)
	w.create(t, s)
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	next := w.prepare(t)
	w.setTakesOver(t, time.Now().Add(-time.Hour).Format(time.RFC3339))
	w.takesOverBecomes(t, "it is held", func(at time.Time) bool { return at.Year() == 9999 })
	if pki.Fingerprint(w.ca(t, "signer-clients", corev1.TLSCertKey)) == next {
		t.Fatal("it signs without a published root")
	}
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Annotations["certplane.dev/next-ca-distributed"] = next })
	w.signer(t, "clients", "signs with the next CA", func(s *v1alpha1.Signer) bool { return s.Status.CA.Fingerprint == next })
}

// A Signer whose Secret was deleted stops; it does not sign with a CA that no verifier
// trusts. When its CA is distrusted, another one signs at once, and the root of the
// former one is gone from all bundles, and does not come back.
func TestEmergency(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.create(t, newSigner("clients", generated()))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	leaf := w.issue(t, "before")
	apitest.Eventually(t, "the root is published", func() bool { return w.verifies(t, leaf) })
	old := pki.Fingerprint(w.ca(t, "signer-clients", corev1.TLSCertKey))
	if err := w.core.CoreV1().Secrets(caNamespace).Delete(t.Context(), "signer-clients", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.is(t, "clients", metav1.ConditionFalse, "CAMissing")
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Spec.DistrustedCAs = []string{old} })
	s := w.is(t, "clients", metav1.ConditionTrue, "Signing")
	if s.Status.CA.Fingerprint == old || len(s.Status.FormerCAs) != 0 {
		t.Errorf("status %+v", s.Status)
	}
	// The same without the loss of the Secret.
	second := w.issue(t, "second")
	apitest.Eventually(t, "the second root is published, and the first one gone", func() bool { return w.verifies(t, second) && !w.verifies(t, leaf) })
	leaked := w.trusted(t)
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Spec.DistrustedCAs = append(s.Spec.DistrustedCAs, s.Status.CA.Fingerprint) })
	w.signer(t, "clients", "signs with a third CA", func(now *v1alpha1.Signer) bool { return now.Status.CA.Fingerprint != s.Status.CA.Fingerprint })
	third := w.issue(t, "third")
	gone := func() bool { return w.verifies(t, third) && !w.verifies(t, second) && !w.verifies(t, leaf) }
	apitest.Eventually(t, "the third root is published, and the others are gone", gone)
	// A bundle with the distrusted root that somebody writes again is deleted again.
	bundle := &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "example.com:client:again", Labels: map[string]string{"app.kubernetes.io/managed-by": "certplane"}},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: string(pki.EncodeCertificates(leaked...))},
	}
	w.create(t, bundle)
	apitest.Eventually(t, "it is gone", gone)
	w.Restart(t)
	w.connect(t)
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	if !gone() {
		t.Error("after a restart, a distrusted root is published")
	}
}

// A CA in a Secret that is distrusted does not sign, and its root is not published.
func TestDistrustedSecret(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.create(t, newCA(t, "ca", "one", 24*time.Hour))
	w.create(t, newSigner("clients", fromSecret("ca")))
	s := w.is(t, "clients", metav1.ConditionTrue, "Signing")
	leaf := w.issue(t, "before")
	apitest.Eventually(t, "the root is published", func() bool { return w.verifies(t, leaf) })
	w.change(t, "clients", func(signer *v1alpha1.Signer) { signer.Spec.DistrustedCAs = []string{s.Status.CA.Fingerprint} })
	w.is(t, "clients", metav1.ConditionFalse, "CADistrusted")
	apitest.Eventually(t, "its root is gone", func() bool { return len(w.trusted(t)) == 0 })
	w.update(t, newCA(t, "ca", "two", 24*time.Hour))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	apitest.Eventually(t, "the root of the other CA is published", func() bool { return len(w.trusted(t)) == 1 })
}

// The root of a CA is trusted as long as the longest certificate that the CA could
// issue, even if the Signer permits only shorter ones when the CA is replaced.
func TestOverlapAfterShorterLifetime(t *testing.T) {
	w := newWorld(t, apitest.Start(t, propagating(0)))
	w.create(t, newSigner("clients", generated()))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	w.change(t, "clients", func(s *v1alpha1.Signer) { s.Spec.Profile.Lifetime.Maximum.Duration = time.Hour })
	w.signer(t, "clients", "has seen the change", func(s *v1alpha1.Signer) bool { return s.Status.ObservedGeneration == s.Generation })
	next := w.prepare(t)
	s := w.signer(t, "clients", "signs with the next CA", func(s *v1alpha1.Signer) bool { return s.Status.CA.Fingerprint == next })
	if former := s.Status.FormerCAs; len(former) != 1 || time.Until(former[0].TrustedUntil.Time) < 2*time.Hour-time.Minute {
		t.Errorf("former CAs %+v, whose certificates live for two hours", former)
	}
}

// Only its Signer gets a generated CA, and a Secret with other contents is left
// alone.
func TestForeignSecret(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	foreign := newCA(t, "signer-clients", "foreign", time.Hour)
	w.create(t, foreign)
	w.create(t, newSigner("clients", generated()))
	w.is(t, "clients", metav1.ConditionFalse, "CAInvalid")
	if w.ca(t, "signer-clients", corev1.TLSCertKey).Subject.CommonName != "foreign" {
		t.Error("the Secret was overwritten")
	}
	if err := w.api.Delete(t.Context(), foreign); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
}

// The CA of API clients can be used by a Signer: the server honours what it
// signs.
func TestBuiltIn(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.create(t, newSigner("clients", v1alpha1.SignerCA{BuiltIn: &v1alpha1.BuiltInCA{}}))
	w.is(t, "clients", metav1.ConditionTrue, "Signing")
	leaf := w.issue(t, "alice")
	if leaf.CheckSignatureFrom(w.ClientCA(t).Certificate()) != nil {
		t.Errorf("%s signs", leaf.Issuer)
	}
}
