package certmanager_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
)

func lasts(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestCertificates(t *testing.T) {
	type spec = cmv1.CertificateSpec
	key := func(algorithm cmv1.PrivateKeyAlgorithm, size int) *cmv1.CertificatePrivateKey {
		return &cmv1.CertificatePrivateKey{Algorithm: algorithm, Size: size}
	}
	password := func(name, key string) *cmv1.CertificateKeystores {
		selector := cmmeta.SecretKeySelector{Key: key}
		selector.Name = name
		return &cmv1.CertificateKeystores{JKS: &cmv1.JKSKeystore{Create: true, PasswordSecretRef: selector}}
	}
	tests := []struct {
		reason string
		edit   func(*spec)
		want   string
	}{
		{"the least", func(*spec) {}, ""},
		{"no Secret", func(s *spec) { s.SecretName = "" }, "spec.secretName: Required"},
		{"no name of a Secret", func(s *spec) { s.SecretName = "A_B" }, "spec.secretName: Invalid"},
		{"no issuer", func(s *spec) { s.IssuerRef.Name = "" }, "spec.issuerRef.name: Required"},
		{"unknown kind", func(s *spec) { s.IssuerRef.Kind = "CA" }, "spec.issuerRef.kind: Invalid"},

		{"no name at all", func(s *spec) { s.DNSNames = nil }, "has no subject or names"},
		{"a common name", func(s *spec) { s.DNSNames, s.CommonName = nil, "web" }, ""},
		{"a common name of 64 characters", func(s *spec) { s.CommonName = strings.Repeat("ü", 64) }, ""},
		{"a common name of 65", func(s *spec) { s.CommonName = strings.Repeat("a", 65) }, "spec.commonName: Too long"},
		{"a literal subject", func(s *spec) { s.DNSNames, s.LiteralSubject = nil, "CN=web,O=corp" }, ""},
		{"a literal subject without CN", func(s *spec) { s.DNSNames, s.LiteralSubject = nil, "O=corp" }, "has no subject or names"},
		{"a long CN in a literal subject", func(s *spec) { s.LiteralSubject = "CN=" + strings.Repeat("a", 65) }, "spec.commonName: Too long"},
		{"a literal subject that is none", func(s *spec) { s.LiteralSubject = "MAIL=x" }, "spec.literalSubject: Invalid"},
		{"an unknown key in a literal subject, in cert-manager's words", func(s *spec) { s.DNSNames, s.LiteralSubject = nil, "C=O,B=TX,CN=foo" }, "Literal subject contains unrecognized key with value [TX]"},
		{"two subjects", func(s *spec) {
			s.LiteralSubject, s.Subject = "CN=a", &cmv1.X509Subject{Countries: []string{"DE"}}
		}, "spec.subject: Invalid"},
		{"two common names", func(s *spec) { s.LiteralSubject, s.CommonName = "CN=a", "a" }, "spec.commonName: Invalid"},
		{"a wildcard", func(s *spec) { s.DNSNames = []string{"*.example.com"} }, ""},
		{"addresses", func(s *spec) { s.IPAddresses = []string{"10.0.0.1", "2001:db8::1"} }, ""},
		{"no address", func(s *spec) { s.IPAddresses = []string{"10.0.0.256"} }, "spec.ipAddresses[0]: Invalid"},
		{"an address of this host only", func(s *spec) { s.IPAddresses = []string{"fe80::1%eth0"} }, "spec.ipAddresses[0]: Invalid"},
		{"no URI", func(s *spec) { s.URIs = []string{"spiffe://a", ":"} }, "spec.uris[1]: Invalid"},
		{"an e-mail address", func(s *spec) { s.EmailAddresses = []string{"a@example.com"} }, ""},
		{"more than an e-mail address", func(s *spec) { s.EmailAddresses = []string{"A <a@example.com>"} }, "spec.emailAddresses[0]: Invalid"},
		{"another name", func(s *spec) {
			s.DNSNames, s.OtherNames = nil, []cmv1.OtherName{{OID: "1.3.6.1.4.1.311.20.2.3", UTF8Value: "a@b"}}
		}, ""},
		{"another name of no type", func(s *spec) { s.OtherNames = []cmv1.OtherName{{OID: "1.x", UTF8Value: "a"}} }, "spec.otherNames[0].oid: Invalid value: \"1.x\": invalid oid syntax"},
		{"another name that is empty", func(s *spec) { s.OtherNames = []cmv1.OtherName{{OID: "1.2.3"}} }, "spec.otherNames[0].utf8Value: Required value: must be set to a valid non-empty UTF8 string"},

		{"an hour", func(s *spec) { s.Duration, s.RenewBefore = lasts(time.Hour), lasts(5*time.Minute) }, ""},
		{"less than an hour", func(s *spec) { s.Duration = lasts(59 * time.Minute) }, "spec.duration: Invalid"},
		{"renewed too late", func(s *spec) { s.RenewBefore = lasts(time.Minute) }, "spec.renewBefore: Invalid"},
		{"renewed at once", func(s *spec) { s.Duration, s.RenewBefore = lasts(time.Hour), lasts(time.Hour) }, "must be less than the duration"},
		{"renewed before the default duration", func(s *spec) { s.RenewBefore = lasts(91 * 24 * time.Hour) }, "which is 2160h0m0s"},
		{"a percentage", func(s *spec) { s.RenewBeforePercentage = ptr.To[int32](25) }, ""},
		{"all of it", func(s *spec) { s.RenewBeforePercentage = ptr.To[int32](100) }, "spec.renewBeforePercentage: Invalid"},
		{"nothing of it", func(s *spec) { s.RenewBeforePercentage = ptr.To[int32](0) }, "spec.renewBeforePercentage: Invalid"},
		{"a small part of an hour", func(s *spec) {
			s.Duration, s.RenewBeforePercentage = lasts(time.Hour), ptr.To[int32](5)
		}, "would renew 3m0s before the expiry"},
		{"a part of centuries", func(s *spec) {
			s.Duration, s.RenewBeforePercentage = lasts(280*365*24*time.Hour), ptr.To[int32](99)
		}, ""},
		{"time and percentage", func(s *spec) {
			s.RenewBefore, s.RenewBeforePercentage = lasts(time.Hour), ptr.To[int32](25)
		}, "must not be set together with renewBefore"},
		{"no renewal", func(s *spec) { s.Renewal = &cmv1.CertificateRenewal{Policy: "Disabled"} }, ""},
		{"windows", func(s *spec) {
			s.Renewal = &cmv1.CertificateRenewal{Windows: []cmv1.CertificateRenewalWindows{{Cron: "0 0 * * *", WindowDuration: lasts(time.Hour), Timezone: "America/Denver"}}}
		}, ""},
		{"a window of no length", func(s *spec) {
			s.Renewal = &cmv1.CertificateRenewal{Windows: []cmv1.CertificateRenewalWindows{{Cron: "0 0 * * *"}}}
		}, "spec.renewal.windows[0].windowDuration: Required"},

		{"RSA 4096", func(s *spec) { s.PrivateKey = key("", 4096) }, ""},
		{"RSA 1024", func(s *spec) { s.PrivateKey = key("RSA", 1024) }, "spec.privateKey.size: Invalid"},
		{"P-521", func(s *spec) { s.PrivateKey = key("ECDSA", 521) }, ""},
		{"P-512", func(s *spec) { s.PrivateKey = key("ECDSA", 512) }, "spec.privateKey.size: Unsupported"},
		{"Ed25519 of whatever size", func(s *spec) { s.PrivateKey = key("Ed25519", 1) }, ""},
		{"unknown algorithm", func(s *spec) { s.PrivateKey = key("DSA", 0) }, "spec.privateKey.algorithm: Unsupported"},
		{"a signature that RSA can make", func(s *spec) { s.SignatureAlgorithm = cmv1.SHA512WithRSA }, ""},
		{"a signature that RSA cannot make", func(s *spec) { s.SignatureAlgorithm = cmv1.ECDSAWithSHA256 }, "spec.signatureAlgorithm: Invalid"},
		{"unknown usage", func(s *spec) { s.Usages = []cmv1.KeyUsage{"signing", "dancing"} }, "spec.usages[1]: Invalid"},

		{"constraints of a CA", func(s *spec) {
			s.IsCA, s.NameConstraints = true, &cmv1.NameConstraints{Permitted: &cmv1.NameConstraintItem{IPRanges: []string{"10.0.0.0/8"}}}
		}, ""},
		{"constraints of no CA", func(s *spec) {
			s.NameConstraints = &cmv1.NameConstraints{Permitted: &cmv1.NameConstraintItem{}}
		}, "spec.nameConstraints: Forbidden"},
		{"empty constraints", func(s *spec) { s.IsCA, s.NameConstraints = true, &cmv1.NameConstraints{} }, "spec.nameConstraints: Required"},
		{"no range", func(s *spec) {
			s.IsCA, s.NameConstraints = true, &cmv1.NameConstraints{Excluded: &cmv1.NameConstraintItem{IPRanges: []string{"10.0.0.0"}}}
		}, "spec.nameConstraints.excluded.ipRanges[0]: Invalid"},

		{"a template", func(s *spec) {
			s.SecretTemplate = &cmv1.CertificateSecretTemplate{
				Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"cert-manager.io/allow-direct-injection": "true", "my": "own"},
			}
		}, ""},
		{"a template with our annotations", func(s *spec) {
			s.SecretTemplate = &cmv1.CertificateSecretTemplate{Annotations: map[string]string{"cert-manager.io/certificate-name": "x"}}
		}, "spec.secretTemplate.annotations: Invalid"},
		{"a template with no label", func(s *spec) {
			s.SecretTemplate = &cmv1.CertificateSecretTemplate{Labels: map[string]string{"a b": "c"}}
		}, "spec.secretTemplate.labels: Invalid"},
		{"formats", func(s *spec) {
			s.AdditionalOutputFormats = []cmv1.CertificateAdditionalOutputFormat{{Type: "DER"}, {Type: "CombinedPEM"}}
		}, ""},
		{"a format twice", func(s *spec) {
			s.AdditionalOutputFormats = []cmv1.CertificateAdditionalOutputFormat{{Type: "DER"}, {Type: "DER"}}
		}, "spec.additionalOutputFormats[1].type: Duplicate"},
		{"a keystore", func(s *spec) { s.Keystores = password("x", "password") }, ""},
		{"a keystore that is not made", func(s *spec) { s.Keystores = &cmv1.CertificateKeystores{PKCS12: &cmv1.PKCS12Keystore{}} }, ""},
		{"a keystore without a password", func(s *spec) { s.Keystores = password("", "") }, "spec.keystores.jks.passwordSecretRef.name: Required"},
		{"a keystore with an empty password", func(s *spec) {
			s.Keystores = &cmv1.CertificateKeystores{PKCS12: &cmv1.PKCS12Keystore{Create: true, Password: ptr.To("")}}
		}, "spec.keystores.pkcs12.password: Forbidden"},
		{"a keystore with two passwords", func(s *spec) {
			s.Keystores = password("x", "password")
			s.Keystores.JKS.Password = ptr.To("secret")
		}, "spec.keystores.jks: Forbidden"},
		{"no history", func(s *spec) { s.RevisionHistoryLimit = ptr.To[int32](0) }, "spec.revisionHistoryLimit: Invalid"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			crt := &cmv1.Certificate{Spec: spec{SecretName: "tls", DNSNames: []string{"a.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "ca"}}}
			tc.edit(&crt.Spec)
			errs := certmanager.ValidateCertificate(crt)
			check(t, errs, tc.want)
			if len(errs) > 1 {
				t.Errorf("one mistake, several errors: %v", errs)
			}
			for _, err := range errs {
				if strings.Contains(err.Error(), "secret\"") {
					t.Errorf("a password is repeated: %v", err)
				}
			}
			if errs := certmanager.ValidateCertificateUpdate(crt, crt.DeepCopy()); len(errs) > 0 {
				t.Errorf("what is stored cannot be changed any more: %v", errs)
			}
			check(t, certmanager.ValidateCertificateUpdate(crt, &cmv1.Certificate{}), tc.want)
		})
	}
}
