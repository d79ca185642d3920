package issue_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

func (w *world) revoke(t *testing.T, cert *x509.Certificate, reason v1alpha1.RevocationReason) {
	t.Helper()
	sum := sha256.Sum256(cert.Raw)
	w.create(t, &v1alpha1.Revocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec:       v1alpha1.RevocationSpec{Certificates: []v1alpha1.RevokedCertificate{{Fingerprint: hex.EncodeToString(sum[:])}}, Reason: reason},
	})
}

// A certificate that is revoked as compromised is issued again at once, with another key
// although that is to be reused. One that is not to exist any more is issued again by hand
// only.
func TestRevoked(t *testing.T) {
	w := newWorld(t)
	crt := newCertificate("web")
	crt.Spec.PrivateKey.RotationPolicy = cmv1.RotationPolicyNever
	w.create(t, crt)
	first := w.sign(t, "web-1")
	w.issued(t, "web", 1)

	w.revoke(t, first, "KeyCompromise")
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonRevoked)
	w.condition(t, "web", issuance.ConditionRevoked, cmmeta.ConditionTrue, "KeyCompromise")
	second := w.sign(t, "web-2")
	if w.holds(t, "web-tls", second); pki.SameKey(first.PublicKey, second.PublicKey) {
		t.Error("the compromised key is used again")
	}
	if crt := w.issued(t, "web", 2); certmanager.CertificateCondition(crt, issuance.ConditionRevoked) != nil {
		t.Errorf("%+v", crt.Status.Conditions)
	}

	w.revoke(t, second, "PrivilegeWithdrawn")
	w.condition(t, "web", cmv1.CertificateConditionReady, cmmeta.ConditionFalse, issuance.ReasonRevoked)
	w.told(t, "web", "cert-manager-certificates-readiness", issuance.ReasonRevoked, `"certplane renew" issues one`)
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.DNSNames = append(crt.Spec.DNSNames, "www.example.com") })
	withdrawn := eventually(t, w, "web", "is looked at again", func(crt *cmv1.Certificate) bool {
		c := certmanager.CertificateCondition(crt, issuance.ConditionRevoked)
		return c != nil && c.Reason == "PrivilegeWithdrawn" && c.ObservedGeneration == crt.Generation
	})
	if certmanager.CertificateCondition(withdrawn, cmv1.CertificateConditionIssuing) != nil {
		t.Errorf("%+v", withdrawn.Status.Conditions)
	}
	w.renew(t, "web")
	third := w.sign(t, "web-3")
	if w.holds(t, "web-tls", third); !pki.SameKey(second.PublicKey, third.PublicKey) {
		t.Error("the key is another one, although spec.privateKey.rotationPolicy is Never")
	}
	if crt := w.issued(t, "web", 3); certmanager.CertificateCondition(crt, issuance.ConditionRevoked) != nil {
		t.Errorf("%+v", crt.Status.Conditions)
	}
}
