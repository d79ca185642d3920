package certmanager_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Issuers and Certificates that cannot work are refused when they are created
// and when they are changed.
func TestIssuersAndCertificates(t *testing.T) {
	w := start(t)
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: "ca"}}
	refused(t, w.admin.Create(t.Context(), issuer.DeepCopy()), "spec: Required value: at least one issuer must be configured")
	issuer.Spec.CA = &cmv1.CAIssuer{SecretName: "ca"}
	if err := w.admin.Create(t.Context(), issuer); err != nil {
		t.Fatal(err)
	}
	changed := issuer.DeepCopy()
	changed.Spec.SelfSigned = &cmv1.SelfSignedIssuer{}
	refused(t, w.admin.Update(t.Context(), changed), "spec.selfSigned: Forbidden")

	crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	crt.Spec = cmv1.CertificateSpec{SecretName: "web", DNSNames: []string{"web.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "ca"}}
	for text, change := range map[string]func(*cmv1.CertificateSpec){
		`spec.otherNames[0].oid: Required value: must be specified`:                                       otherName("", "x"),
		`spec.otherNames[0].oid: Invalid value: "1.2.oid": invalid oid syntax`:                            otherName("1.2.oid", "x"),
		`spec.otherNames[0].utf8Value: Required value: must be set to a valid non-empty UTF8 string`:      otherName("1.2.3", ""),
		`spec.commonName: Invalid value: "web": must be empty where literalSubject is set`:                func(s *cmv1.CertificateSpec) { s.CommonName, s.LiteralSubject = "web", "CN=web" },
		`spec.literalSubject: Invalid value: "CN"`:                                                        func(s *cmv1.CertificateSpec) { s.LiteralSubject = "CN" },
		`spec.renewal.windows[0].cron: Invalid value: "0 25 * * *": hour: "25": must be between 0 and 23`: window("0 25 * * *", time.Hour, ""),
		`spec.renewal.windows[0].cron: Invalid value: "0 0 30 2 *": never occurs`:                         window("0 0 30 2 *", time.Hour, ""),
		`spec.renewal.windows[0].timezone: Invalid value: "Mars": must be the name of a time zone`:        window("0 0 * * *", time.Hour, "Mars"),
		`spec.renewal.windows[0].windowDuration: Invalid value: "0s": must be more than 0s`:               window("0 0 * * *", 0, ""),
		`spec.renewal.windows: Forbidden: must not be set where renewal.policy is Disabled`: func(s *cmv1.CertificateSpec) {
			window("0 0 * * *", time.Hour, "")(s)
			s.Renewal.Policy = cmv1.CertificateRenewalPolicyDisabled
		},
	} {
		wrong := crt.DeepCopy()
		change(&wrong.Spec)
		refused(t, w.admin.Create(t.Context(), wrong), text)
	}
	window("30 2 * * sat,sun", 4*time.Hour, "Europe/Berlin")(&crt.Spec)
	if err := w.admin.Create(t.Context(), crt); err != nil {
		t.Fatal(err)
	}
	crt.Status.Conditions = []cmv1.CertificateCondition{{Type: cmv1.CertificateConditionIssuing, Status: cmmeta.ConditionTrue, Reason: "ManuallyTriggered"}}
	if err := w.admin.Status().Update(t.Context(), crt); err != nil {
		t.Errorf("writing the status: %v", err)
	}
	without := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dnsNames":null}}`))
	refused(t, w.admin.Patch(t.Context(), crt, without), "has no subject or names")
}

func otherName(oid, value string) func(*cmv1.CertificateSpec) {
	return func(s *cmv1.CertificateSpec) { s.OtherNames = []cmv1.OtherName{{OID: oid, UTF8Value: value}} }
}

func window(cron string, lasts time.Duration, zone string) func(*cmv1.CertificateSpec) {
	return func(s *cmv1.CertificateSpec) {
		s.Renewal = &cmv1.CertificateRenewal{Windows: []cmv1.CertificateRenewalWindows{{Cron: cron, WindowDuration: &metav1.Duration{Duration: lasts}, Timezone: zone}}}
	}
}
