package secret_test

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a Certificate with its answered request.
type fixture struct {
	crt *cmv1.Certificate
	cr  *cmv1.CertificateRequest
	key crypto.Signer
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	key, caKey := newKey(t), newKey(t)
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "root", caKey, 1000*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	low, err := ca.NewIntermediate(pki.UnrecordedSigning, "low", newKey(t), 900*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := low.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web", Organizations: []string{"Shop, Inc", "Fair"}, DNSNames: []string{"a.example", "b.example"}}, key.Public(), pki.ServerUsages(), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{
		key: key,
		crt: &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"},
			Spec:       cmv1.CertificateSpec{SecretName: "web-tls", IssuerRef: cmmeta.IssuerReference{Name: "ca", Kind: "Issuer"}},
		},
		cr: &cmv1.CertificateRequest{
			Spec:   cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "ca"}},
			Status: cmv1.CertificateRequestStatus{Certificate: pki.EncodeCertificates(chain...), CA: pki.EncodeCertificates(ca.Certificate())},
		},
	}
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (f *fixture) content(t testing.TB) secret.Content {
	t.Helper()
	content, err := secret.Issued(f.crt, f.cr, f.key)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (f *fixture) apply(t testing.TB, o secret.Options) *applycorev1.SecretApplyConfiguration {
	t.Helper()
	o.Now = now
	applied, err := f.content(t).Apply(o)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func TestApply(t *testing.T) {
	f := newFixture(t)
	f.crt.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{
		Labels:      map[string]string{"team": "shop", "controller.cert-manager.io/fao": "false"},
		Annotations: map[string]string{"example.com/a": "b"},
	}
	got := f.apply(t, secret.Options{})
	wantAnnotations := map[string]string{
		"example.com/a":                    "b",
		"cert-manager.io/certificate-name": "web",
		"cert-manager.io/issuer-name":      "ca", "cert-manager.io/issuer-kind": "", "cert-manager.io/issuer-group": "", // as in the request
		"cert-manager.io/common-name": "web", "cert-manager.io/alt-names": "a.example,b.example",
		"cert-manager.io/ip-sans": "", "cert-manager.io/uri-sans": "",
		"cert-manager.io/subject-organizations": `Fair,"Shop, Inc"`, // DER sorts them
	}
	if diff := cmp.Diff(wantAnnotations, got.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "shop", "controller.cert-manager.io/fao": "true"}, got.Labels); diff != "" {
		t.Error(diff)
	}
	if *got.Name != "web-tls" || *got.Namespace != "ns" || *got.Type != corev1.SecretTypeTLS || got.OwnerReferences != nil {
		t.Errorf("%s/%s of type %s, owners %v", *got.Namespace, *got.Name, *got.Type, got.OwnerReferences)
	}
	if keys := slices.Sorted(maps.Keys(got.Data)); !slices.Equal(keys, []string{"ca.crt", "tls.crt", "tls.key"}) {
		t.Errorf("data %q", keys)
	}
	if !bytes.Equal(got.Data["tls.crt"], f.cr.Status.Certificate) || !bytes.Equal(got.Data["ca.crt"], f.cr.Status.CA) {
		t.Error("the certificates are not those of the request")
	}
}

func TestApplyVariants(t *testing.T) {
	tests := []struct {
		reason  string
		change  func(*fixture)
		options secret.Options
		check   func(*applycorev1.SecretApplyConfiguration) bool
	}{
		{"no CA", func(f *fixture) { f.cr.Status.CA = nil }, secret.Options{}, func(s *applycorev1.SecretApplyConfiguration) bool { _, has := s.Data["ca.crt"]; return !has }},
		{"another type that exists", nil, secret.Options{Type: corev1.SecretTypeOpaque}, func(s *applycorev1.SecretApplyConfiguration) bool { return *s.Type == corev1.SecretTypeOpaque }},
		{"owned", nil, secret.Options{Owned: true}, func(s *applycorev1.SecretApplyConfiguration) bool {
			return len(s.OwnerReferences) == 1 && *s.OwnerReferences[0].UID == "uid" && *s.OwnerReferences[0].Kind == "Certificate" && *s.OwnerReferences[0].Controller
		}},
		{"PKCS#8", func(f *fixture) { f.crt.Spec.PrivateKey = &cmv1.CertificatePrivateKey{Encoding: cmv1.PKCS8} }, secret.Options{}, keyBlock("PRIVATE KEY")},
		{"the default encoding", nil, secret.Options{}, keyBlock("EC PRIVATE KEY")},
		{"DER", formats(cmv1.CertificateOutputFormatDER), secret.Options{}, func(s *applycorev1.SecretApplyConfiguration) bool {
			block, _ := pem.Decode(s.Data["tls.key"])
			return bytes.Equal(s.Data["key.der"], block.Bytes)
		}},
		{"combined", formats(cmv1.CertificateOutputFormatCombinedPEM), secret.Options{}, func(s *applycorev1.SecretApplyConfiguration) bool {
			return string(s.Data["tls-combined.pem"]) == string(s.Data["tls.key"])+"\n"+string(s.Data["tls.crt"])
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t)
			if tc.change != nil {
				tc.change(f)
			}
			if !tc.check(f.apply(t, tc.options)) {
				t.Error("the Secret is not as it should be")
			}
		})
	}
}

func keyBlock(kind string) func(*applycorev1.SecretApplyConfiguration) bool {
	return func(s *applycorev1.SecretApplyConfiguration) bool {
		block, _ := pem.Decode(s.Data["tls.key"])
		return block != nil && block.Type == kind
	}
}

func formats(types ...cmv1.CertificateOutputFormatType) func(*fixture) {
	return func(f *fixture) {
		for _, kind := range types {
			f.crt.Spec.AdditionalOutputFormats = append(f.crt.Spec.AdditionalOutputFormats, cmv1.CertificateAdditionalOutputFormat{Type: kind})
		}
	}
}

func keystores(f *fixture) {
	f.crt.Spec.Keystores = &cmv1.CertificateKeystores{
		JKS:    &cmv1.JKSKeystore{Create: true, Alias: ptr.To("shop"), Password: ptr.To("a")},
		PKCS12: &cmv1.PKCS12Keystore{Create: true, PasswordSecretRef: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "p"}, Key: "k"}},
	}
}

var passwords = secret.Passwords{JKS: "jks-password", PKCS12: "p12-password"}

func TestApplyKeystores(t *testing.T) {
	for _, profile := range []cmv1.PKCS12Profile{"", cmv1.LegacyRC2PKCS12Profile, cmv1.LegacyDESPKCS12Profile, cmv1.Modern2023PKCS12Profile, cmv1.Modern2026PKCS12Profile} {
		t.Run("profile "+string(profile), func(t *testing.T) {
			f := newFixture(t)
			keystores(f)
			f.crt.Spec.Keystores.PKCS12.Profile = profile
			data := f.apply(t, secret.Options{Passwords: passwords}).Data

			key, cert, issuers, err := pkcs12.DecodeChain(data["keystore.p12"], passwords.PKCS12)
			if err != nil {
				t.Fatal(err)
			}
			if signer, ok := key.(crypto.Signer); !ok || !pki.SameKey(signer.Public(), f.key.Public()) || cert.Subject.CommonName != "web" || len(issuers) != 2 {
				t.Errorf("keystore.p12 has %T of %v with %d issuers", key, cert.Subject, len(issuers))
			}
			if cas, err := pkcs12.DecodeTrustStore(data["truststore.p12"], passwords.PKCS12); err != nil || len(cas) != 1 || cas[0].Subject.CommonName != "root" {
				t.Errorf("truststore.p12 has %d CAs: %v", len(cas), err)
			}

			store := jks.New()
			if err := store.Load(bytes.NewReader(data["keystore.jks"]), []byte(passwords.JKS)); err != nil {
				t.Fatal(err)
			}
			entry, err := store.GetPrivateKeyEntry("shop", []byte(passwords.JKS))
			if err != nil || len(entry.CertificateChain) != 2 || !store.IsTrustedCertificateEntry("ca") {
				t.Errorf("keystore.jks has %q, a chain of %d: %v", store.Aliases(), len(entry.CertificateChain), err)
			}
			trust := jks.New()
			if err := trust.Load(bytes.NewReader(data["truststore.jks"]), []byte(passwords.JKS)); err != nil || !slices.Equal(trust.Aliases(), []string{"ca"}) {
				t.Errorf("truststore.jks has %q: %v", trust.Aliases(), err)
			}
		})
	}
}

// A key that is called like the CA stays.
func TestApplyKeystoreWithAliasOfCA(t *testing.T) {
	f := newFixture(t)
	keystores(f)
	f.crt.Spec.Keystores.JKS.Alias = ptr.To("ca")
	store := jks.New()
	if err := store.Load(bytes.NewReader(f.apply(t, secret.Options{Passwords: passwords}).Data["keystore.jks"]), []byte(passwords.JKS)); err != nil {
		t.Fatal(err)
	}
	if !store.IsPrivateKeyEntry("ca") || !store.IsTrustedCertificateEntry("ca-1") {
		t.Errorf("keystore.jks has %q, and no key under ca", store.Aliases())
	}
}

func TestApplyKeystoresOfNoCA(t *testing.T) {
	f := newFixture(t)
	keystores(f)
	f.cr.Status.CA, f.crt.Spec.Keystores.JKS.Alias = nil, nil
	data := f.apply(t, secret.Options{Passwords: passwords}).Data
	if keys := slices.Sorted(maps.Keys(data)); !slices.Equal(keys, []string{"keystore.jks", "keystore.p12", "tls.crt", "tls.key"}) {
		t.Errorf("data %q", keys)
	}
	store := jks.New()
	if err := store.Load(bytes.NewReader(data["keystore.jks"]), []byte(passwords.JKS)); err != nil || !slices.Equal(store.Aliases(), []string{"certificate"}) {
		t.Errorf("aliases %q: %v", store.Aliases(), err)
	}
}

func TestApplyRefuses(t *testing.T) {
	for want, change := range map[string]func(*fixture){
		"writing Java keystore: the password is empty": func(f *fixture) { keystores(f); f.crt.Spec.Keystores.PKCS12 = nil },
		"writing PKCS#12 keystore: the password is":    func(f *fixture) { keystores(f); f.crt.Spec.Keystores.JKS = nil },
		`the profile "old" is not known`: func(f *fixture) {
			keystores(f)
			f.crt.Spec.Keystores.JKS, f.crt.Spec.Keystores.PKCS12.Profile = nil, "old"
		},
		`spec.additionalOutputFormats: "XML"`: formats("XML"),
		"reading the certificate":             func(f *fixture) { f.cr.Status.Certificate = []byte("?") },
	} {
		f := newFixture(t)
		change(f)
		if _, err := f.content(t).Apply(secret.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestPasswordRefs(t *testing.T) {
	f := newFixture(t)
	if a, b := secret.PasswordRefs(&f.crt.Spec); a != nil || b != nil {
		t.Error("passwords for no keystores")
	}
	keystores(f)
	a, b := secret.PasswordRefs(&f.crt.Spec)
	if diff := cmp.Diff([]*secret.PasswordRef{{Value: "a"}, {Secret: "p", Key: "k"}}, []*secret.PasswordRef{a, b}); diff != "" {
		t.Error(diff)
	}
	f.crt.Spec.Keystores.JKS.Create = false
	if a, _ := secret.PasswordRefs(&f.crt.Spec); a != nil {
		t.Error("a password for a keystore that is not made")
	}
}
