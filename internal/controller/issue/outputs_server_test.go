package issue_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/certplane/certplane/internal/pki"
)

// Other formats of the key and the certificate come and go with the spec,
// without another certificate.
func TestOutputFormats(t *testing.T) {
	w := newWorld(t)
	w.newSigners(t)
	w.create(t, newOf("web", "ca"))
	w.issued(t, "web", 1)
	w.change(t, "web", func(crt *cmv1.Certificate) {
		crt.Spec.AdditionalOutputFormats = []cmv1.CertificateAdditionalOutputFormat{{Type: cmv1.CertificateOutputFormatDER}, {Type: cmv1.CertificateOutputFormatCombinedPEM}}
	})
	s := w.secret(t, "web-tls", "has both", func(s *corev1.Secret) bool { return len(s.Data["key.der"]) > 0 && len(s.Data["tls-combined.pem"]) > 0 })
	block, _ := pem.Decode(s.Data[corev1.TLSPrivateKeyKey])
	if !bytes.Equal(s.Data["key.der"], block.Bytes) {
		t.Error("key.der is not the key")
	}
	if want := string(s.Data[corev1.TLSPrivateKeyKey]) + "\n" + string(s.Data[corev1.TLSCertKey]); string(s.Data["tls-combined.pem"]) != want {
		t.Error("tls-combined.pem is not the key, a line feed and the chain")
	}
	w.tamper(t, "web-tls", func(s *corev1.Secret) { s.Data["key.der"] = []byte("tampered") })
	w.secret(t, "web-tls", "is as it was", func(s *corev1.Secret) bool { return bytes.Equal(s.Data["key.der"], block.Bytes) })
	w.change(t, "web", func(crt *cmv1.Certificate) { crt.Spec.AdditionalOutputFormats = crt.Spec.AdditionalOutputFormats[:1] })
	w.secret(t, "web-tls", "has DER alone", func(s *corev1.Secret) bool {
		_, has := s.Data["tls-combined.pem"]
		return !has && len(s.Data["key.der"]) > 0
	})
	w.issued(t, "web", 1)
}

func newOf(name, issuer string) *cmv1.Certificate {
	crt := newCertificate(name)
	crt.Spec.IssuerRef = cmmeta.IssuerReference{Name: issuer}
	return crt
}

// Keystores have the key, its chain and the CA. They use the requested
// password, also if that changes, without another certificate.
func TestKeystores(t *testing.T) {
	w := newWorld(t)
	root := w.newSigners(t)
	w.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}, StringData: map[string]string{"word": "open sesame"}})
	ref := cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "password"}, Key: "word"}
	byRef, literal := newOf("by-ref", "ca"), newOf("literal", "ca")
	byRef.Spec.Keystores = &cmv1.CertificateKeystores{
		JKS: &cmv1.JKSKeystore{Create: true, PasswordSecretRef: ref}, PKCS12: &cmv1.PKCS12Keystore{Create: true, PasswordSecretRef: ref},
	}
	literal.Spec.Keystores = &cmv1.CertificateKeystores{
		JKS:    &cmv1.JKSKeystore{Create: true, Password: ptr.To("let me in"), Alias: ptr.To("mine")},
		PKCS12: &cmv1.PKCS12Keystore{Create: true, Password: ptr.To("let me in"), Profile: cmv1.Modern2023PKCS12Profile},
	}
	w.create(t, byRef)
	w.create(t, literal)
	w.issued(t, "by-ref", 1)
	w.issued(t, "literal", 1)
	w.opens(t, "by-ref-tls", "certificate", "open sesame", root)
	w.opens(t, "literal-tls", "mine", "let me in", root)

	w.tamper(t, "password", func(s *corev1.Secret) { s.Data["word"] = []byte("close sesame") })
	w.opens(t, "by-ref-tls", "certificate", "close sesame", root)
	w.change(t, "literal", func(crt *cmv1.Certificate) { crt.Spec.Keystores.JKS.Alias = ptr.To("yours") })
	w.opens(t, "literal-tls", "yours", "let me in", root)
	w.change(t, "literal", func(crt *cmv1.Certificate) { crt.Spec.Keystores.PKCS12.Profile = cmv1.LegacyDESPKCS12Profile })
	w.secret(t, "literal-tls", "has the profile", func(s *corev1.Secret) bool {
		return usesTripleDES(s.Data["keystore.p12"]) && usesTripleDES(s.Data["truststore.p12"])
	})
	w.opens(t, "literal-tls", "yours", "let me in", root)
	w.issued(t, "by-ref", 1)
	w.issued(t, "literal", 1)

	w.tamper(t, "by-ref-tls", func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("junk") })
	w.told(t, "by-ref", "cert-manager-certificates-issuing", "SecretNotWritten", "reading the CA")

	w.change(t, "literal", func(crt *cmv1.Certificate) { crt.Spec.Keystores.JKS.Create = false })
	w.secret(t, "literal-tls", "has no Java keystores", func(s *corev1.Secret) bool {
		return s.Data["keystore.jks"] == nil && s.Data["truststore.jks"] == nil && len(s.Data["keystore.p12"]) > 0 && len(s.Data["truststore.p12"]) > 0
	})
}

// usesTripleDES reports whether PKCS#12 is encrypted as the profile LegacyDES
// requires: with pbeWithSHAAnd3-KeyTripleDES-CBC of RFC 7292 appendix C, and
// without PBES2.
func usesTripleDES(data []byte) bool {
	return bytes.Contains(data, []byte("\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x03")) && !bytes.Contains(data, []byte("\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"))
}

// opens waits until all keystores of a Secret open with a password, and compares
// what they hold with the rest of the Secret.
func (w *world) opens(t testing.TB, name, alias, password string, root cert) {
	t.Helper()
	s := w.secret(t, name, "opens with "+password, func(s *corev1.Secret) bool {
		_, _, _, err := pkcs12.DecodeChain(s.Data["keystore.p12"], password)
		store := jks.New()
		return err == nil && store.Load(bytes.NewReader(s.Data["keystore.jks"]), []byte(password)) == nil && store.IsPrivateKeyEntry(alias)
	})
	chain, err := pki.ParseCertificates(s.Data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	secretKey, err := pki.ParsePrivateKey(s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	key, first, others, err := pkcs12.DecodeChain(s.Data["keystore.p12"], password)
	if err != nil {
		t.Fatal(err)
	}
	private, ok := key.(interface{ Equal(crypto.PrivateKey) bool })
	if !ok || !private.Equal(secretKey) || !first.Equal(chain[0]) || len(others) != 2 || !others[0].Equal(chain[1]) || !others[1].Equal(root) {
		t.Errorf("%s: keystore.p12 has other contents", name)
	}
	if trusted, err := pkcs12.DecodeTrustStore(s.Data["truststore.p12"], password); err != nil || len(trusted) != 1 || !trusted[0].Equal(root) {
		t.Errorf("%s: truststore.p12 has %d certificates: %v", name, len(trusted), err)
	}
	w.opensJKS(t, s, alias, password, chain, root)
}

func (w *world) opensJKS(t testing.TB, s *corev1.Secret, alias, password string, chain []*x509.Certificate, root cert) {
	t.Helper()
	store, trust := jks.New(), jks.New()
	if err := store.Load(bytes.NewReader(s.Data["keystore.jks"]), []byte(password)); err != nil {
		t.Fatal(err)
	}
	entry, err := store.GetPrivateKeyEntry(alias, []byte(password))
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
	if err != nil || len(entry.CertificateChain) != 2 || !bytes.Equal(entry.CertificateChain[0].Content, chain[0].Raw) || !bytes.Equal(entry.CertificateChain[1].Content, chain[1].Raw) {
		t.Errorf("%s: keystore.jks has another chain: %v", s.Name, err)
	}
	secretKey, _ := pki.ParsePrivateKey(s.Data[corev1.TLSPrivateKeyKey])
	want, _ := x509.MarshalPKCS8PrivateKey(secretKey)
	if got, err := x509.MarshalPKCS8PrivateKey(key); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: keystore.jks has another key: %v", s.Name, err)
	}
	if err := trust.Load(bytes.NewReader(s.Data["truststore.jks"]), []byte(password)); err != nil {
		t.Fatal(err)
	}
	for what, of := range map[string]jks.KeyStore{"keystore.jks": store, "truststore.jks": trust} {
		ca, err := of.GetTrustedCertificateEntry("ca")
		if err != nil || !bytes.Equal(ca.Certificate.Content, root.Raw) {
			t.Errorf("%s: %s does not have the root as ca: %v", s.Name, what, err)
		}
	}
}
