package certmanager_test

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Issuers and Certificates that nobody could act on are refused, where they are
// created and where they are changed.
func TestIssuersAndCertificates(t *testing.T) {
	w := start(t)
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca"}}
	refused(t, w.admin.Create(t.Context(), issuer.DeepCopy()), "spec: Required value: must have one of acme, ca, selfSigned, vault, venafi")
	issuer.Spec.CA = &cmv1.CAIssuer{SecretName: "ca"}
	if err := w.admin.Create(t.Context(), issuer); err != nil {
		t.Fatal(err)
	}
	changed := issuer.DeepCopy()
	changed.Spec.SelfSigned = &cmv1.SelfSignedIssuer{}
	refused(t, w.admin.Update(t.Context(), changed), "spec.selfSigned: Forbidden")

	crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	crt.Spec = cmv1.CertificateSpec{SecretName: "web", DNSNames: []string{"web.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "ca"}}
	wrong := crt.DeepCopy()
	wrong.Spec.OtherNames = []cmv1.OtherName{{OID: "junk", UTF8Value: "x"}}
	refused(t, w.admin.Create(t.Context(), wrong), "invalid oid syntax")
	windows := crt.DeepCopy()
	windows.Spec.Renewal = &cmv1.CertificateRenewal{
		Policy: cmv1.CertificateRenewalPolicyRenewBefore, Windows: []cmv1.CertificateRenewalWindows{{Cron: "0 0 * * *", WindowDuration: &metav1.Duration{Duration: 3600e9}}},
	}
	refused(t, w.admin.Create(t.Context(), windows), "spec.renewal.windows: Forbidden: is not supported by certplane yet")
	if err := w.admin.Create(t.Context(), crt); err != nil {
		t.Fatal(err)
	}
	crt.Status.Conditions = []cmv1.CertificateCondition{{Type: cmv1.CertificateConditionIssuing, Status: cmmeta.ConditionTrue, Reason: "ManuallyTriggered"}}
	if err := w.admin.Status().Update(t.Context(), crt); err != nil {
		t.Errorf("writing the status: %v", err)
	}
	without := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dnsNames":null}}`))
	refused(t, w.admin.Patch(t.Context(), crt, without), "names nobody")
}
