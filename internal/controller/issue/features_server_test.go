package issue_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/storerecord"
)

type (
	spec = cmv1.CertificateSpec
	cert = *x509.Certificate
)

// feature is something that a Certificate can request.
type feature struct {
	name string
	spec spec
	// check describes what of the certificate is not as requested.
	check func(cert) string
}

var (
	ecdsaKey   = &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm}
	ed25519Key = &cmv1.CertificatePrivateKey{Algorithm: cmv1.Ed25519KeyAlgorithm}
	// longName has a label of 63 characters, the most that RFC 1035 allows.
	longName = strings.Repeat("a", 63) + ".example.com"
	upn      = "1.3.6.1.4.1.311.20.2.3" // a Microsoft user principal name
)

// features are those that cert-manager's conformance tests require of issuers.
// Keys are ECDSA unless the feature is about keys: RSA keys take long to make.
var features = []feature{
	{"one-dns", spec{DNSNames: []string{"example.com"}, PrivateKey: &cmv1.CertificatePrivateKey{}}, all(names("example.com"), keyOfType[*rsa.PublicKey])},
	{"ca", spec{IsCA: true, CommonName: "ca.example.com"}, isCA},
	{"ecdsa", spec{DNSNames: []string{"example.com"}}, all(names("example.com"), keyOfType[*ecdsa.PublicKey])},
	{"ed25519", spec{DNSNames: []string{"example.com"}, PrivateKey: ed25519Key}, all(names("example.com"), keyOfType[ed25519.PublicKey])},
	{"cn", spec{CommonName: "cn.example.com"}, all(commonName("cn.example.com"), names())},
	{"cn-ecdsa", spec{CommonName: "cn.example.com", PrivateKey: ecdsaKey}, all(commonName("cn.example.com"), keyOfType[*ecdsa.PublicKey])},
	{"cn-ed25519", spec{CommonName: "cn.example.com", PrivateKey: ed25519Key}, all(commonName("cn.example.com"), keyOfType[ed25519.PublicKey])},
	{"other-name", spec{
		EmailAddresses: []string{"mail@example.com"}, OtherNames: []cmv1.OtherName{{OID: upn, UTF8Value: "user@example.com"}},
	}, all(names("mail@example.com"), otherName(upn, "user@example.com"))},
	{"literal-subject", spec{LiteralSubject: "CN=foo-long,DC=Corp,O=Example+OU=Ops,DC=example,DC=com"}, literalSubject},
	{"ip", spec{IPAddresses: []string{"10.0.0.1", "2001:db8::1"}}, names("10.0.0.1", "2001:db8::1")},
	{"dns-ip", spec{DNSNames: []string{"example.com"}, IPAddresses: []string{"10.0.0.1"}}, names("10.0.0.1", "example.com")},
	{"cn-ip", spec{CommonName: "cn.example.com", IPAddresses: []string{"10.0.0.1"}}, all(commonName("cn.example.com"), names("10.0.0.1"))},
	{"email", spec{EmailAddresses: []string{"mail@example.com"}}, names("mail@example.com")},
	{"cn-uri", spec{CommonName: "cn.example.com", URIs: []string{"spiffe://cluster.local/ns/a/sa/b"}}, all(commonName("cn.example.com"), names("spiffe://cluster.local/ns/a/sa/b"))},
	{"uri", spec{URIs: []string{"spiffe://cluster.local/ns/a/sa/b"}}, all(commonName(""), names("spiffe://cluster.local/ns/a/sa/b"))},
	{"two-dns", spec{CommonName: "a.example.com", DNSNames: []string{"a.example.com", "b.example.com"}}, all(commonName("a.example.com"), names("a.example.com", "b.example.com"))},
	{"distinct-cn", spec{CommonName: "c.example.com", DNSNames: []string{"a.example.com"}}, all(commonName("c.example.com"), names("a.example.com"))},
	{"wildcard", spec{DNSNames: []string{"*.example.com"}}, names("*.example.com")},
	{"wildcard-apex", spec{DNSNames: []string{"*.example.com", "example.com"}}, names("*.example.com", "example.com")},
	{"long-domain", spec{DNSNames: []string{longName}}, names(longName)},
	{"duration", spec{DNSNames: []string{"example.com"}, Duration: &metav1.Duration{Duration: 896 * time.Hour}}, lasts(896 * time.Hour)},
	{"default-duration", spec{DNSNames: []string{"example.com"}}, lasts(90 * 24 * time.Hour)},
	{"usages", spec{DNSNames: []string{"example.com"}, Usages: []cmv1.KeyUsage{
		cmv1.UsageSigning, cmv1.UsageDataEncipherment, cmv1.UsageServerAuth, cmv1.UsageClientAuth,
	}}, usages},
}

func all(checks ...func(cert) string) func(cert) string {
	return func(c cert) string {
		var wrong []string
		for _, check := range checks {
			if what := check(c); what != "" {
				wrong = append(wrong, what)
			}
		}
		return strings.Join(wrong, "; ")
	}
}

// names checks that these are all alternative names, sorted.
func names(want ...string) func(cert) string {
	return func(c cert) string {
		got := slices.Concat(c.DNSNames, c.EmailAddresses)
		for _, ip := range c.IPAddresses {
			got = append(got, ip.String())
		}
		for _, uri := range c.URIs {
			got = append(got, uri.String())
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Sprintf("alternative names %q, want %q", got, want)
		}
		return ""
	}
}

func commonName(want string) func(cert) string {
	return func(c cert) string {
		if got := c.Subject.CommonName; got != want {
			return fmt.Sprintf("common name %q, want %q", got, want)
		}
		return ""
	}
}

func keyOfType[K any](c cert) string {
	if _, ok := c.PublicKey.(K); !ok {
		return fmt.Sprintf("key of type %T", c.PublicKey)
	}
	return ""
}

func isCA(c cert) string {
	if !c.IsCA || c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return fmt.Sprintf("no CA: isCA %v, key usage %b", c.IsCA, c.KeyUsage)
	}
	return commonName("ca.example.com")(c)
}

// otherName reads the extension itself, because crypto/x509 does not (RFC 5280
// section 4.2.1.6): otherName is [0] of a type and an explicit [0] value.
func otherName(oid, value string) func(cert) string {
	type name struct {
		Type  asn1.ObjectIdentifier
		Value string `asn1:"tag:0,explicit,utf8"`
	}
	return func(c cert) string {
		for _, extension := range c.Extensions {
			if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
				continue
			}
			var all []asn1.RawValue
			if _, err := asn1.Unmarshal(extension.Value, &all); err != nil {
				return err.Error()
			}
			for _, raw := range all {
				var got name
				if _, err := asn1.UnmarshalWithParams(raw.FullBytes, &got, "tag:0"); err == nil && got.Type.String() == oid && got.Value == value {
					return ""
				}
			}
		}
		return fmt.Sprintf("no other name %s=%s", oid, value)
	}
}

// literalSubject checks the parts in the order of RFC 4514, which writes the
// last one first. Within a part, DER sorts by encoding: the shorter one comes
// first.
func literalSubject(c cert) string {
	var got pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &got); err != nil {
		return err.Error()
	}
	var parts []string
	for _, set := range got {
		var part []string
		for _, attribute := range set {
			part = append(part, fmt.Sprintf("%v=%v", attribute.Type, attribute.Value))
		}
		parts = append(parts, strings.Join(part, "+"))
	}
	const dc = "0.9.2342.19200300.100.1.25="
	want := []string{dc + "com", dc + "example", "2.5.4.11=Ops+2.5.4.10=Example", dc + "Corp", "2.5.4.3=foo-long"}
	if !slices.Equal(parts, want) {
		return fmt.Sprintf("subject %q, want %q", parts, want)
	}
	return ""
}

func lasts(want time.Duration) func(cert) string {
	return func(c cert) string {
		// NotBefore may be backdated; what counts is the remaining lifetime.
		if got := c.NotAfter.Sub(c.NotBefore); (got - want).Abs() > 30*time.Second {
			return fmt.Sprintf("lasts %v, want %v", got, want)
		}
		return ""
	}
}

func usages(c cert) string {
	wantKey, wantExtended := x509.KeyUsageDigitalSignature|x509.KeyUsageDataEncipherment, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if c.KeyUsage != wantKey || !slices.Equal(c.ExtKeyUsage, wantExtended) || len(c.UnknownExtKeyUsage) > 0 {
		return fmt.Sprintf("key usage %b, extended %v", c.KeyUsage, c.ExtKeyUsage)
	}
	return ""
}

type signer struct {
	// prefix is the prefix of its Certificates' names.
	prefix string
	ref    cmmeta.IssuerReference
	isCA   bool
}

// signers returns the issuers under test.
func (w *world) signers() []signer {
	return []signer{
		{"i-ca", cmmeta.IssuerReference{Name: "ca"}, true},
		{"c-ca", cmmeta.IssuerReference{Name: w.clusterWide("ca"), Kind: cmv1.ClusterIssuerKind, Group: certmanager.Group}, true},
		{"i-self", cmmeta.IssuerReference{Name: "self", Kind: cmv1.IssuerKind}, false},
		{"c-self", cmmeta.IssuerReference{Name: w.clusterWide("self"), Kind: cmv1.ClusterIssuerKind}, false},
	}
}

// clusterWide returns a name for a cluster-scoped object that other tests do
// not use.
func (w *world) clusterWide(name string) string { return w.namespace + "-" + name }

// newSigners makes the issuers under test. They sign with a CA below a root,
// which newSigners returns.
func (w *world) newSigners(t testing.TB) cert {
	t.Helper()
	root, data := newCA(t)
	ca := cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: w.clusterWide("ca")}}
	self := cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}
	for _, ns := range []string{w.namespace, storerecord.CertManagerNamespace} {
		pair := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: w.clusterWide("ca")}, Type: corev1.SecretTypeTLS, Data: data}
		if err := w.everywhere.Create(t.Context(), pair); err != nil {
			t.Fatal(err)
		}
	}
	for name, config := range map[string]cmv1.IssuerConfig{"ca": ca, "self": self} {
		w.create(t, &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cmv1.IssuerSpec{IssuerConfig: config}})
		w.create(t, &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: w.clusterWide(name)}, Spec: cmv1.IssuerSpec{IssuerConfig: config}})
	}
	return root
}

// newCA makes a root and a CA below it, and the contents of a Secret with the
// CA.
func newCA(t testing.TB) (root cert, data map[string][]byte) {
	t.Helper()
	rootKey, key := apitest.NewKey(t), apitest.NewKey(t)
	root = newCACertificate(t, "Root", nil, rootKey, rootKey)
	ca := newCACertificate(t, "Issuing CA", root, key, rootKey)
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return root, map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(ca), cmmeta.TLSCAKey: pki.EncodeCertificates(root), corev1.TLSPrivateKeyKey: encoded,
	}
}

func newCACertificate(t testing.TB, name string, parent cert, key, parentKey crypto.Signer) cert {
	t.Helper()
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Every issuer issues what every Certificate requests.
func TestFeatures(t *testing.T) {
	w := newWorldOn(t, crowded.Start(t))
	root := w.newSigners(t)
	for _, signer := range w.signers() {
		for _, feature := range features {
			crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: signer.prefix + "-" + feature.name}, Spec: *feature.spec.DeepCopy()}
			crt.Spec.SecretName, crt.Spec.IssuerRef = crt.Name, signer.ref
			if crt.Spec.PrivateKey == nil {
				crt.Spec.PrivateKey = ecdsaKey
			}
			w.create(t, crt)
		}
	}
	for _, signer := range w.signers() {
		for _, feature := range features {
			t.Run(signer.prefix+"-"+feature.name, func(t *testing.T) {
				w.complete(t, signer.prefix+"-"+feature.name)
				secret, _ := get[corev1.Secret](t, w, signer.prefix+"-"+feature.name)
				issued := leaf(t, secret)
				if wrong := feature.check(issued); wrong != "" {
					t.Error(wrong)
				}
				if signer.isCA {
					verifies(t, secret, root)
				} else {
					verifies(t, secret, issued)
				}
			})
		}
	}
}

// complete waits until a Certificate has what its spec requests, and nothing is
// left to be done.
func (w *world) complete(t testing.TB, name string) {
	t.Helper()
	eventually(t, w, name, "is complete", func(crt *cmv1.Certificate) bool {
		ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
		return ready != nil && ready.Status == cmmeta.ConditionTrue && ready.ObservedGeneration >= crt.Generation &&
			!certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) && crt.Status.NextPrivateKeySecretName == nil
	})
}

// verifies checks that the certificate, its chain and its key belong to the
// root in the Secret.
func verifies(t testing.TB, secret *corev1.Secret, root cert) {
	t.Helper()
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	cas, err := pki.ParseCertificates(secret.Data[cmmeta.TLSCAKey])
	if err != nil || len(cas) != 1 || !cas[0].Equal(root) {
		t.Fatalf("ca.crt has %d certificates, want the root: %v", len(cas), err)
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	options.Roots.AddCert(root)
	for _, ca := range chain[1:] {
		options.Intermediates.AddCert(ca)
	}
	if _, err := chain[0].Verify(options); err != nil {
		t.Error(err)
	}
	key, err := pki.ParsePrivateKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || !pki.SameKey(key.Public(), chain[0].PublicKey) {
		t.Errorf("tls.key is not the certificate's: %v", err)
	}
}

// A key that is to be reused stays when the certificate is lost and when
// another one is requested, with any signer.
func TestReusePrivateKey(t *testing.T) {
	w := newWorldOn(t, crowded.Start(t))
	w.newSigners(t)
	kept := map[string]cert{}
	for _, signer := range w.signers() {
		crt := newCertificate(signer.prefix)
		crt.Spec.SecretName, crt.Spec.IssuerRef, crt.Spec.PrivateKey = crt.Name, signer.ref, &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm, RotationPolicy: cmv1.RotationPolicyNever}
		w.create(t, crt)
	}
	again := func(t *testing.T, name string, revision int) cert {
		w.issued(t, name, revision)
		w.complete(t, name)
		secret, _ := get[corev1.Secret](t, w, name)
		issued := leaf(t, secret)
		if before := kept[name]; before != nil && (before.Equal(issued) || !pki.SameKey(before.PublicKey, issued.PublicKey)) {
			t.Error("no other certificate, or one with another key")
		}
		kept[name] = issued
		return issued
	}
	for _, signer := range w.signers() {
		name := signer.prefix
		t.Run(name, func(t *testing.T) {
			again(t, name, 1)
			w.tamper(t, name, func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte{} })
			again(t, name, 2)
			w.change(t, name, func(crt *cmv1.Certificate) { crt.Spec.DNSNames = append(crt.Spec.DNSNames, "www.example.com") })
			if issued := again(t, name, 3); !slices.Contains(issued.DNSNames, "www.example.com") {
				t.Errorf("issued for %q", issued.DNSNames)
			}
		})
	}
}
