package issue_test

import (
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// What a Certificate specifies for its Secret beyond the certificate is kept up
// to date without another certificate, and what other clients have put there
// stays.
func TestSecretIsKept(t *testing.T) {
	w := newWorldOn(t, tuned.Start(t))
	w.create(t, newCertificate("web"))
	cert := w.sign(t, "web-1")
	w.issued(t, "web", 1)
	secret := w.holds(t, "web-tls", cert)
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].Name != "web" {
		t.Errorf("owners: %v", secret.OwnerReferences)
	}
	w.tamper(t, "web-tls", func(s *corev1.Secret) { metav1.SetMetaDataLabel(&s.ObjectMeta, "other", "stays") })

	// A field that another client has set to the wanted value is owned by both.
	w.tamper(t, "web-tls", func(s *corev1.Secret) { metav1.SetMetaDataLabel(&s.ObjectMeta, "shared", "x") })
	w.change(t, "web", func(crt *cmv1.Certificate) {
		crt.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{Labels: map[string]string{"shared": "x"}}
	})
	w.secret(t, "web-tls", "is owned by two", func(s *corev1.Secret) bool {
		return slices.ContainsFunc(s.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == "cert-manager-certificates-issuing" && strings.Contains(f.FieldsV1.GetRawString(), `"f:shared"`)
		})
	})
	w.change(t, "web", func(crt *cmv1.Certificate) {
		crt.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"for": "us"}}
		crt.Spec.AdditionalOutputFormats = []cmv1.CertificateAdditionalOutputFormat{{Type: cmv1.CertificateOutputFormatDER}}
	})
	w.secret(t, "web-tls", "follows the template", func(s *corev1.Secret) bool {
		return s.Labels["app"] == "web" && s.Annotations["for"] == "us" && s.Labels["other"] == "stays" && len(s.Data["key.der"]) > 0
	})
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.SecretTemplate.Annotations = map[string]string{"for": "them"} })
	w.secret(t, "web-tls", "follows a change", func(s *corev1.Secret) bool { return s.Annotations["for"] == "them" })
	w.tamper(t, "web-tls", func(s *corev1.Secret) { delete(s.Annotations, "for") })
	w.secret(t, "web-tls", "has its annotation back", func(s *corev1.Secret) bool { return s.Annotations["for"] == "them" })
	w.tamper(t, "web-tls", func(s *corev1.Secret) { s.Labels["app"] = "tampered" })
	w.secret(t, "web-tls", "is as it was", func(s *corev1.Secret) bool { return s.Labels["app"] == "web" })
	w.tamper(t, "web-tls", func(s *corev1.Secret) { delete(s.Labels, cmv1.PartOfCertManagerControllerLabelKey) })
	w.secret(t, "web-tls", "is as it was", func(s *corev1.Secret) bool { return s.Labels[cmv1.PartOfCertManagerControllerLabelKey] == "true" })
	w.change(t, "web", func(crt *cmv1.Certificate) {
		crt.Spec.SecretTemplate, crt.Spec.AdditionalOutputFormats = nil, nil
	})
	w.secret(t, "web-tls", "has nothing more of the template", func(s *corev1.Secret) bool {
		_, annotated := s.Annotations["for"]
		return !annotated && s.Labels["app"] == "" && s.Labels["other"] == "stays" && len(s.Data["key.der"]) == 0
	})

	// A keystore waits for its password.
	w.change(t, "web", func(crt *cmv1.Certificate) {
		ref := cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "password"}, Key: "word"}
		crt.Spec.Keystores = &cmv1.CertificateKeystores{PKCS12: &cmv1.PKCS12Keystore{Create: true, PasswordSecretRef: ref}}
	})
	w.told(t, "web", "cert-manager-certificates-issuing", "KeystorePasswordSecretNotFound", `"password"`)
	w.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "password"},
		StringData: map[string]string{"word": "open sesame"},
	})
	w.secret(t, "web-tls", "has a keystore", func(s *corev1.Secret) bool { return len(s.Data["keystore.p12"]) > 0 })
	if !leaf(t, w.secretOf(t, "web", "web-tls")).Equal(cert) {
		t.Error("another certificate was issued for the sake of metadata")
	}
}

// If two Certificates name one Secret, one is issued, and the other says why it
// is not. When the first is deleted, the other is issued.
func TestDuplicateSecretName(t *testing.T) {
	w := newWorld(t)
	first := newCertificate("first")
	w.create(t, first)
	w.sign(t, "first-1")
	w.issued(t, "first", 1)
	second := newCertificate("second")
	second.Spec.SecretName = first.Spec.SecretName
	w.create(t, second)
	w.condition(t, "second", cmv1.CertificateConditionReady, cmmeta.ConditionFalse, issuance.ReasonIncorrectCertificate)
	w.renew(t, "second") // even then
	w.told(t, "second", "cert-manager-certificates-trigger", issuance.ReasonIncorrectCertificate, `belongs to Certificate "first"`)
	eventually(t, w, "second", "does not wait for what never comes", func(crt *cmv1.Certificate) bool {
		return certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing) == nil
	})
	w.issued(t, "first", 1)
	list := &cmv1.CertificateRequestList{}
	if err := w.api.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d requests, want that of the first alone: %v", len(list.Items), err)
	}
	if err := w.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	cert := w.sign(t, "second-1")
	w.issued(t, "second", 1)
	w.holds(t, "first-tls", cert)
}

// A Certificate that is being deleted gets nothing more.
func TestForegroundDeletion(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	crt.Finalizers = []string{"example.com/hold"}
	w.create(t, crt)
	w.sign(t, "web-1")
	w.issued(t, "web", 1)
	if err := w.api.Delete(t.Context(), crt, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.gone(t, &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}})
	w.gone(t, w.removed(t, "web-tls"))
	// Work for another Certificate that is created now comes after any work for
	// this one.
	w.create(t, newCertificate("next"))
	w.sign(t, "next-1")
	w.issued(t, "next", 1)
	list := &cmv1.CertificateRequestList{}
	if err := w.api.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d requests, want that of the other Certificate alone: %v", len(list.Items), err)
	}
	if _, ok := get[corev1.Secret](t, w, "web-tls"); ok {
		t.Error("the Secret came back")
	}
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Finalizers = nil })
}

// A Secret with a suitable certificate is adopted, with all that marks it as
// the Certificate's: before an issuance begins, and during one.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	w.create(t, crt)
	cert := w.sign(t, "web-1")
	w.issued(t, "web", 1)
	secret := w.holds(t, "web-tls", cert)
	if err := w.api.Delete(t.Context(), crt, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.gone(t, crt)

	w.create(t, newCertificate("web"))
	again := w.condition(t, "web", cmv1.CertificateConditionReady, cmmeta.ConditionTrue, issuance.ReasonReady)
	if again.Status.Revision != nil || certmanager.CertificateCondition(again, cmv1.CertificateConditionIssuing) != nil {
		t.Errorf("issued what was there: %+v", again.Status)
	}

	w.gone(t, w.removed(t, "web-tls"))
	w.waiting(t, "web-1")
	secret.ResourceVersion, secret.UID, secret.ManagedFields = "", "", nil
	w.create(t, secret)
	w.told(t, "web", "cert-manager-certificates-trigger", issuance.ReasonAdopted, "web-tls")
	eventually(t, w, "web", "is not being issued", func(crt *cmv1.Certificate) bool {
		return !certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) && certmanager.CertificateIs(crt, cmv1.CertificateConditionReady)
	})
	if !leaf(t, w.secretOf(t, "web", "web-tls")).Equal(cert) {
		t.Error("the certificate is another one")
	}
}

// A Certificate that asks for it has a temporary certificate to serve until its
// issuer answers.
func TestTemporary(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	crt.Annotations = map[string]string{cmv1.IssueTemporaryCertificateAnnotation: "true"}
	crt.Spec.RevisionHistoryLimit = ptr.To(int32(2))
	w.create(t, crt)
	cr := w.waiting(t, "web-1")
	w.answer(t, cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionFalse, cmv1.CertificateRequestReasonPending, "a moment")
	w.told(t, "web", "cert-manager-certificates-issuing", "Issuing", issuance.MessageTemporary)
	w.condition(t, "web", cmv1.CertificateConditionReady, cmmeta.ConditionFalse, issuance.ReasonTemporary)
	w.signNow(t, cr)
	w.issued(t, "web", 1)
	w.renew(t, "web")
	w.sign(t, "web-2")
	w.issued(t, "web", 2)
	if _, kept := get[cmv1.CertificateRequest](t, w, "web-1"); !kept {
		t.Error("spec.revisionHistoryLimit is 2, and the first request is gone")
	}
	w.renew(t, "web")
	w.sign(t, "web-3")
	w.gone(t, cr)
}

// tamper changes a Secret as another user.
func (w *world) tamper(t testing.TB, name string, change func(*corev1.Secret)) {
	t.Helper()
	secret, _ := get[corev1.Secret](t, w, name)
	before := secret.DeepCopy()
	change(secret)
	if err := w.api.Patch(t.Context(), secret, client.MergeFrom(before), client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
}

// removed deletes a Secret and returns what it was.
func (w *world) removed(t testing.TB, name string) *corev1.Secret {
	t.Helper()
	secret, _ := get[corev1.Secret](t, w, name)
	if err := w.api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func (w *world) secret(t testing.TB, name, what string, holds func(*corev1.Secret) bool) *corev1.Secret {
	t.Helper()
	return eventually(t, w, name, what, holds)
}

// secretOf waits until a Certificate is ready and returns its Secret.
func (w *world) secretOf(t testing.TB, certificate, secret string) *corev1.Secret {
	t.Helper()
	w.condition(t, certificate, cmv1.CertificateConditionReady, cmmeta.ConditionTrue, issuance.ReasonReady)
	found, _ := get[corev1.Secret](t, w, secret)
	return found
}

// Another program that writes the Secret again and again costs two certificates,
// then pauses: the Certificate says who writes it. A change of the spec counts at
// once.
func TestOverwrittenSecret(t *testing.T) {
	w := newWorld(t)
	other := newCertificate("other")
	other.Spec.SecretName = "other-tls"
	w.create(t, other)
	w.sign(t, "other-1")
	w.issued(t, "other", 1)
	foreign := w.secretOf(t, "other", "other-tls").Data
	overwrite := func() { w.tamper(t, "web-tls", func(s *corev1.Secret) { s.Data = foreign }) }

	w.create(t, newCertificate("web"))
	w.sign(t, "web-1")
	w.issued(t, "web", 1)
	overwrite()
	w.sign(t, "web-2")
	w.issued(t, "web", 2)
	overwrite()
	w.told(t, "web", "cert-manager-certificates-readiness", "SecretOverwritten", "it was last written by")
	crt := w.condition(t, "web", cmv1.CertificateConditionReady, cmmeta.ConditionFalse, issuance.ReasonSecretMismatch)
	ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	if *crt.Status.Revision != 2 || certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) || !strings.Contains(ready.Message, `Secret "web-tls" has lost its certificate again`) {
		t.Errorf("revision %d, %q", *crt.Status.Revision, ready.Message)
	}
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.DNSNames = append(crt.Spec.DNSNames, "new.example.com") })
	w.sign(t, "web-3")
	w.issued(t, "web", 3)
}
