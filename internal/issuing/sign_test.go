package issuing_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func newKey(t testing.TB, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// chain is a root and a CA below it.
type chain struct {
	root, low       *pki.Authority
	rootKey, lowKey crypto.Signer
}

func newChain(t testing.TB) chain {
	t.Helper()
	c := chain{rootKey: newKey(t, pki.ECDSAP256), lowKey: newKey(t, pki.ECDSAP256)}
	var err error
	if c.root, err = pki.NewRoot(pki.UnrecordedSigning, "root", c.rootKey, 400*day, now); err != nil {
		t.Fatal(err)
	}
	if c.low, err = c.root.NewIntermediate(pki.UnrecordedSigning, "low", c.lowKey, 300*day, now); err != nil {
		t.Fatal(err)
	}
	return c
}

func tlsSecret(t testing.TB, key crypto.Signer, ca *x509.Certificate, certs ...*x509.Certificate) *corev1.Secret {
	t.Helper()
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{Data: map[string][]byte{corev1.TLSPrivateKeyKey: data, corev1.TLSCertKey: pki.EncodeCertificates(certs...)}}
	if ca != nil {
		s.Data[cmmeta.TLSCAKey] = pki.EncodeCertificates(ca)
	}
	return s
}

// tlsSecretWith is tlsSecret with a whole bundle in ca.crt.
func tlsSecretWith(t testing.TB, key crypto.Signer, bundle []*x509.Certificate, certs ...*x509.Certificate) *corev1.Secret {
	t.Helper()
	s := tlsSecret(t, key, nil, certs...)
	s.Data[cmmeta.TLSCAKey] = pki.EncodeCertificates(bundle...)
	return s
}

func newRequest(t testing.TB, key crypto.Signer, change func(*cmv1.CertificateRequest)) issuing.Request {
	t.Helper()
	data, err := pki.NewRequest(pki.Subject{CommonName: "web", DNSNames: []string{"example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{Spec: cmv1.CertificateRequestSpec{Request: data}}
	if change != nil {
		change(cr)
	}
	req, err := issuing.RequestOf(request.FromCertificateRequest(cr))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// verdict shows an error as state, reason and text.
func verdict(err error) string {
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &permanent):
		return "Failed " + permanent.Reason + " " + err.Error()
	case errors.As(err, &pending):
		return "Pending " + pending.Reason + " " + pending.Message
	}
	return "no verdict: " + err.Error()
}

func TestOpenCA(t *testing.T) {
	c, other := newChain(t), newChain(t)
	root, low := c.root.Certificate(), c.low.Certificate()
	tests := []struct {
		reason string
		secret *corev1.Secret
		want   string
	}{
		{reason: "a root, as a SelfSigned issuer leaves it", secret: tlsSecret(t, c.rootKey, root, root)},
		{reason: "a root alone", secret: tlsSecret(t, c.rootKey, nil, root)},
		{reason: "an intermediate alone", secret: tlsSecret(t, c.lowKey, nil, low)},
		{reason: "an intermediate with its root elsewhere", secret: tlsSecret(t, c.lowKey, root, low)},
		{reason: "an intermediate with its root", secret: tlsSecret(t, c.lowKey, nil, low, root)},
		{reason: "no Secret", want: "Pending SecretMissing Referenced secret ns/ca not found"},
		{reason: "an empty Secret", secret: &corev1.Secret{}, want: "Pending SecretInvalidData Failed to parse signing CA keypair from secret ns/ca: tls.key: no private key found"},
		{reason: "no certificate", secret: tlsSecret(t, c.rootKey, nil), want: "SecretInvalidData Failed to parse signing CA keypair from secret ns/ca: tls.crt"},
		{reason: "another key", secret: tlsSecret(t, other.rootKey, nil, root), want: "private key does not belong to the CA certificate"},
		{reason: "another root", secret: tlsSecret(t, c.lowKey, other.root.Certificate(), low), want: "do not form a chain"},
		{reason: "a broken root", secret: withCA(tlsSecret(t, c.lowKey, root, low), "broken"), want: "ca.crt: must contain at least one"},
		{reason: "the root first", secret: tlsSecret(t, c.rootKey, nil, root, low), want: "the first certificate is not the lowest one"},
		{reason: "a key that is too weak", secret: weak(t), want: "elliptic curve P-224 is not supported for signing"},
		{reason: "more certificates than a chain has", secret: tlsSecret(t, c.rootKey, nil, slices.Repeat([]*x509.Certificate{root}, 900)...),
			want: "Pending SecretInvalidData Failed to parse signing CA keypair from secret ns/ca: tls.crt: more than 20 certificates are too many for a chain"},
		{reason: "a bundle of roots beside it, of which the first belongs to it", secret: tlsSecretWith(t, c.lowKey, append([]*x509.Certificate{root}, slices.Repeat([]*x509.Certificate{other.root.Certificate()}, 900)...), low)},
		{reason: "no CA", secret: endEntity(t, c), want: "is not a CA certificate"},
		{reason: "two certificates of it, as two roots have signed it", secret: tlsSecret(t, c.lowKey, nil, low, crossSigned(t, c, other), root, other.root.Certificate())},
		{reason: "the same with one of the roots elsewhere", secret: tlsSecret(t, c.lowKey, other.root.Certificate(), low, crossSigned(t, c, other))},
		{reason: "two blocks joined", secret: withCertificate(tlsSecret(t, c.lowKey, nil, low), joined(low, root)), want: "tls.crt: line 1: the PEM block cannot be read: text follows on its last line"},
		{reason: "two blocks of the root joined", secret: withCA(tlsSecret(t, c.lowKey, root, low), joined(root, root)), want: "ca.crt: line 1: the PEM block cannot be read"},
		{reason: "a block that was cut", secret: withCertificate(tlsSecret(t, c.lowKey, nil, low), joined(low, root)[:900]), want: "tls.crt: line"},
		{reason: "a byte order mark", secret: withCertificate(tlsSecret(t, c.lowKey, nil, low), "\ufeff"+joined(low)), want: "byte order mark"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := ca.Open("ns/ca", tc.secret)
			if got := verdict(err); (err != nil) != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("verdict %q, want %q", got, tc.want)
			}
		})
	}
}

func weak(t testing.TB) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "weak", key, day, now)
	if err != nil {
		t.Fatal(err)
	}
	return tlsSecret(t, key, nil, ca.Certificate())
}

func crossSigned(t testing.TB, c, by chain) *x509.Certificate {
	t.Helper()
	template := *c.low.Certificate()
	template.AuthorityKeyId = by.root.Certificate().SubjectKeyId
	der, err := x509.CreateCertificate(rand.Reader, &template, by.root.Certificate(), c.lowKey.Public(), by.rootKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// joined returns certificates as cat joins files without a last line break.
func joined(certs ...*x509.Certificate) string {
	var text string
	for _, cert := range certs {
		text += strings.TrimSuffix(string(pki.EncodeCertificates(cert)), "\n")
	}
	return text + "\n"
}

func withCertificate(s *corev1.Secret, data string) *corev1.Secret {
	s.Data[corev1.TLSCertKey] = []byte(data)
	return s
}

func withCA(s *corev1.Secret, data string) *corev1.Secret {
	s.Data[cmmeta.TLSCAKey] = []byte(data)
	return s
}

func endEntity(t testing.TB, c chain) *corev1.Secret {
	t.Helper()
	key := newKey(t, pki.ECDSAP256)
	certs, err := c.root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web"}, key.Public(), pki.ServerUsages(), day, now)
	if err != nil {
		t.Fatal(err)
	}
	return tlsSecret(t, key, nil, certs[0])
}

// The chain has no root, and the CA is the root as far as it is known.
func TestSignCAChain(t *testing.T) {
	c := newChain(t)
	root, low := c.root.Certificate(), c.low.Certificate()
	tests := []struct {
		reason string
		secret *corev1.Secret
		chain  []string
		ca     string
	}{
		{"a root", tlsSecret(t, c.rootKey, root, root), []string{"web"}, "root"},
		{"an intermediate and its root", tlsSecret(t, c.lowKey, root, low), []string{"web", "low"}, "root"},
		{"an intermediate appears in both", tlsSecret(t, c.lowKey, nil, low), []string{"web", "low"}, "low"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			authority, err := ca.Open("ns/ca", tc.secret)
			if err != nil {
				t.Fatal(err)
			}
			issued, err := ca.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, newRequest(t, newKey(t, pki.ECDSAP256), nil), &cmv1.CAIssuer{}, authority, now)
			if err != nil {
				t.Fatal(err)
			}
			if got := commonNames(t, issued.PEM); !slices.Equal(got, tc.chain) {
				t.Errorf("chain %q, want %q", got, tc.chain)
			}
			if got := commonNames(t, issued.CA); !slices.Equal(got, []string{tc.ca}) {
				t.Errorf("CA %q, want %q", got, tc.ca)
			}
		})
	}
}

func commonNames(t testing.TB, data []byte) []string {
	t.Helper()
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, cert := range certs {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}

func TestSignCA(t *testing.T) {
	c := newChain(t)
	tests := []struct {
		reason string
		change func(*cmv1.CertificateRequest)
		at     time.Time
		ca     *pki.Authority
		want   string // verdict
		// The rest is for certificates.
		lives time.Duration
		usage x509.KeyUsage
		isCA  bool
		notes int
	}{
		{reason: "defaults", lives: 90 * day, usage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment},
		{reason: "a duration", change: lasting(35 * day), lives: 35 * day, usage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment},
		{reason: "usages as they are, whatever the key", change: using("data encipherment", "server auth"), lives: 90 * day, usage: x509.KeyUsageDataEncipherment},
		{reason: "cut to the CA's end", change: lasting(500 * day), lives: 400 * day, usage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, notes: 1},
		{reason: "a CA", change: asCA, lives: 90 * day, usage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign, isCA: true},
		{reason: "a CA below one that has no room", change: asCA, ca: c.low, want: "Failed SigningError Error signing certificate: refusing to sign: the CA must not issue CA certificates"},
		{reason: "the CA has ended", at: now.Add(401 * day), want: "Pending SignerExpired the signer has expired"},
		{reason: "the CA has not begun", at: now.Add(-day), want: "Pending SignerExpired the signer is not yet valid"},
		{reason: "no request", change: func(cr *cmv1.CertificateRequest) { cr.Spec.Request = []byte("?") }, want: "Failed SigningError Error generating certificate template"},
		{reason: "a forged request", change: forge, want: "Failed SigningError Error generating certificate template: verifying"},
		{reason: "cert sign without a CA", change: using("cert sign"), want: "Failed SigningError Error signing certificate: refusing to sign: usage cert sign needs a CA"},
		{reason: "a CA in the request alone", change: saysCA(t, newKey(t, pki.ECDSAP256)), want: "Failed SigningError Error generating certificate template: encoded CSR error: IsCA true does not match expected value false"},
		{reason: "the past", change: lasting(-day), want: "Failed SigningError Error signing certificate: the requested duration -24h0m0s is shorter than a second"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if tc.at.IsZero() {
				tc.at = now
			}
			if tc.ca == nil {
				tc.ca = c.root
			}
			config := &cmv1.CAIssuer{CRLDistributionPoints: []string{"http://crl"}, OCSPServers: []string{"http://ocsp"}, IssuingCertificateURLs: []string{"http://ca"}}
			issued, err := ca.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, newRequest(t, newKey(t, pki.Ed25519), tc.change), config, tc.ca, tc.at)
			if got := verdict(err); (err != nil) != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Fatalf("verdict %q, want %q", got, tc.want)
			}
			if err != nil {
				return
			}
			cert := issued.Certificate
			if !cert.NotBefore.Equal(now) || cert.NotAfter.Sub(now) != tc.lives {
				t.Errorf("valid from %v for %v, want %v", cert.NotBefore, cert.NotAfter.Sub(now), tc.lives)
			}
			if cert.KeyUsage != tc.usage || cert.IsCA != tc.isCA {
				t.Errorf("usages %b, CA %v", cert.KeyUsage, cert.IsCA)
			}
			if len(issued.Warnings) != tc.notes {
				t.Errorf("notes %v", issued.Warnings)
			}
			where := [][]string{cert.CRLDistributionPoints, cert.OCSPServer, cert.IssuingCertificateURL}
			if diff := cmp.Diff([][]string{{"http://crl"}, {"http://ocsp"}, {"http://ca"}}, where); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A CA that an issuer signs has a path length only if its request asks for one: CAs in
// three levels are usual, and a path length limits no name (SECURITY.md).
func TestThreeLevelsOfCAs(t *testing.T) {
	authority, chain := newChain(t).root, []*x509.Certificate(nil)
	for level, change := range []func(*cmv1.CertificateRequest){asCA, asCA, nil} {
		key := newKey(t, pki.ECDSAP256)
		issued, err := ca.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, newRequest(t, key, func(cr *cmv1.CertificateRequest) {
			if change != nil {
				cr.Spec.Request = pkcs10Of(t, key, fmt.Sprint("level ", level))
				change(cr)
			}
		}), &cmv1.CAIssuer{}, authority, now)
		if err != nil {
			t.Fatalf("level %d: %v", level, err)
		}
		if change == nil {
			return
		}
		if issued.Certificate.MaxPathLen > 0 || issued.Certificate.MaxPathLenZero {
			t.Errorf("level %d: path length %d", level, issued.Certificate.MaxPathLen)
		}
		chain = append([]*x509.Certificate{issued.Certificate}, chain...)
		if authority, err = pki.NewAuthority(chain, key); err != nil {
			t.Fatal(err)
		}
	}
}

func pkcs10Of(t *testing.T, key crypto.Signer, name string) []byte {
	t.Helper()
	data, err := pki.NewRequest(pki.Subject{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func lasting(d time.Duration) func(*cmv1.CertificateRequest) {
	return func(cr *cmv1.CertificateRequest) { cr.Spec.Duration = &metav1.Duration{Duration: d} }
}

func using(usages ...cmv1.KeyUsage) func(*cmv1.CertificateRequest) {
	return func(cr *cmv1.CertificateRequest) { cr.Spec.Usages = usages }
}

func asCA(cr *cmv1.CertificateRequest) { cr.Spec.IsCA = true }

// forge breaks the signature: it is the last part of a request.
func forge(cr *cmv1.CertificateRequest) {
	block, _ := pem.Decode(cr.Spec.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	cr.Spec.Request = pem.EncodeToMemory(block)
}

func TestSignSelf(t *testing.T) {
	key, other := newKey(t, pki.ECDSAP256), newKey(t, pki.ECDSAP256)
	tests := []struct {
		reason string
		change func(*cmv1.CertificateRequest)
		from   selfsigned.KeySecret
		want   string
		notes  int
	}{
		{reason: "the request's key", from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}},
		{reason: "a root", change: asCA, from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}},
		{reason: "without a subject", change: nameless(t, key), from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}, notes: 1},
		{reason: "no annotation", want: `Failed MissingAnnotation annotation "where" is missing or empty`},
		{reason: "no Secret", from: selfsigned.KeySecret{Namespace: "ns", Name: "key"}, want: "Pending MissingSecret Referenced secret ns/key not found"},
		{reason: "no key", from: selfsigned.KeySecret{Namespace: "ns", Name: "key", Secret: &corev1.Secret{}}, want: `Pending ErrorParsingKey Failed to get key "tls.key" referenced in secret ns/key`},
		{reason: "another key", from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, other, nil)}, want: "Failed ErrorKeyMatch"},
		{reason: "no request", change: func(cr *cmv1.CertificateRequest) { cr.Spec.Request = nil }, from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}, want: "Failed ErrorGenerating"},
		{reason: "cert sign without a CA", change: using("cert sign"), from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}, want: "Failed ErrorSigning"},
		{reason: "no time at all", change: lasting(0), from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}, want: "Failed ErrorSigning Error signing certificate: the requested duration 0s is shorter than a second"},
		{reason: "a CA in the request alone", change: saysCA(t, key), from: selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}, want: "Failed ErrorGenerating Error generating certificate template: encoded CSR error: IsCA true does not match expected value false"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			tc.from.Annotation = "where"
			config := &cmv1.SelfSignedIssuer{CRLDistributionPoints: []string{"http://crl"}}
			issued, err := selfsigned.Sign(t.Context(), pki.Unrecorded, newRequest(t, key, tc.change), config, tc.from, now)
			if got := verdict(err); (err != nil) != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Fatalf("verdict %q, want %q", got, tc.want)
			}
			if err != nil {
				return
			}
			if err := issued.Certificate.CheckSignature(issued.Certificate.SignatureAlgorithm, issued.Certificate.RawTBSCertificate, issued.Certificate.Signature); err != nil {
				t.Error(err)
			}
			if string(issued.PEM) != string(issued.CA) || len(commonNames(t, issued.CA)) != 1 {
				t.Error("the certificate is not its own CA")
			}
			if len(issued.Warnings) != tc.notes || !slices.Equal(issued.Certificate.CRLDistributionPoints, config.CRLDistributionPoints) {
				t.Errorf("notes %v", issued.Warnings)
			}
		})
	}
}

// saysCA has the encoded request ask for a CA.
func saysCA(t testing.TB, key crypto.Signer) func(*cmv1.CertificateRequest) {
	isCA := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{isCA}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return func(cr *cmv1.CertificateRequest) {
		cr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
}

func nameless(t testing.TB, key crypto.Signer) func(*cmv1.CertificateRequest) {
	return func(cr *cmv1.CertificateRequest) {
		var err error
		if cr.Spec.Request, err = pki.NewRequest(pki.Subject{DNSNames: []string{"example.com"}}, key); err != nil {
			t.Fatal(err)
		}
	}
}

// Errors and notes go onto objects that many may read.
func TestNoKeysInTexts(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	s := tlsSecret(t, key, nil)
	block, _ := pem.Decode(s.Data[corev1.TLSPrivateKeyKey])
	broken := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes[:40]})
	s.Data[corev1.TLSPrivateKeyKey] = broken
	_, err := selfsigned.Sign(t.Context(), pki.Unrecorded, newRequest(t, key, nil), &cmv1.SelfSignedIssuer{}, selfsigned.KeySecret{Name: "key", Secret: s}, now)
	if got := verdict(err); !strings.HasPrefix(got, "Pending ErrorParsingKey") || strings.Contains(got, strings.Split(string(broken), "\n")[1][:16]) {
		t.Errorf("verdict %q", got)
	}
}
