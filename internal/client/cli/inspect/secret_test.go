package inspect_test

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/client/cli/inspect"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// issued is a CA, and a server's certificate from it that is valid for a day.
type issued struct {
	ca    *pki.Authority
	chain []*x509.Certificate
	key   crypto.Signer
	again *x509.Certificate // another certificate of the CA
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newIssued(t *testing.T) issued {
	t.Helper()
	caKey := newKey(t)
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "Test CA", caKey, 240*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := pki.NewRoot(pki.UnrecordedSigning, "Test CA", caKey, 480*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web", DNSNames: []string{"web.example.com"}}, key.Public(), pki.ServerUsages(), 24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return issued{ca, chain, key, again.Certificate()}
}

func encode(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (i issued) secret(t *testing.T) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		"tls.crt": pki.EncodeCertificates(i.chain...), "tls.key": encode(t, i.key), "ca.crt": pki.EncodeCertificates(i.ca.Certificate()),
	}}
}

func TestSecret(t *testing.T) {
	good, other := newIssued(t), newIssued(t)
	tests := []struct {
		reason string
		change func(*corev1.Secret)
		later  time.Duration
		check  string
		want   inspect.Result
		says   string
	}{
		{reason: "a key of its own", check: "key fits", want: inspect.Good},
		{reason: "another key", change: func(s *corev1.Secret) { s.Data["tls.key"] = encode(t, other.key) }, check: "key fits", want: inspect.Bad, says: "another certificate"},
		{reason: "a broken key", change: func(s *corev1.Secret) { s.Data["tls.key"] = []byte("secret stuff") }, check: "key fits", want: inspect.Bad, says: "not a private key in PEM"},
		{reason: "no key", change: func(s *corev1.Secret) { delete(s.Data, "tls.key") }, check: "key fits", want: inspect.Bad, says: "no tls.key"},
		{reason: "in time", check: "valid now", want: inspect.Good},
		{reason: "ended", later: 48 * time.Hour, check: "valid now", want: inspect.Bad, says: "expired at 2026-05-02"},
		{reason: "not begun", later: -48 * time.Hour, check: "valid now", want: inspect.Bad, says: "begins"},
		{reason: "its CA", check: "leads to ca.crt", want: inspect.Good},
		{reason: "another CA", change: func(s *corev1.Secret) { s.Data["ca.crt"] = pki.EncodeCertificates(other.ca.Certificate()) }, check: "leads to ca.crt", want: inspect.Bad},
		{reason: "no CA", change: func(s *corev1.Secret) { delete(s.Data, "ca.crt") }, check: "leads to ca.crt", want: inspect.Unknown},
		{reason: "a broken CA", change: func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("x") }, check: "leads to ca.crt", want: inspect.Bad, says: "ca.crt"},
		{reason: "the CA follows", change: func(s *corev1.Secret) {
			s.Data["tls.crt"] = pki.EncodeCertificates(good.chain[0], good.ca.Certificate())
		}, check: "chain in order", want: inspect.Good},
		{reason: "two certificates of the CA follow", change: func(s *corev1.Secret) {
			s.Data["tls.crt"] = pki.EncodeCertificates(good.chain[0], good.ca.Certificate(), good.again)
		}, check: "chain in order", want: inspect.Good},
		{reason: "another CA follows", change: func(s *corev1.Secret) {
			s.Data["tls.crt"] = pki.EncodeCertificates(good.chain[0], other.ca.Certificate())
		}, check: "chain in order", want: inspect.Bad},
		{reason: "not of this computer", check: "trusted here", want: inspect.Unknown, says: "not by this computer"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			secret := good.secret(t)
			if tt.change != nil {
				tt.change(secret)
			}
			at := now.Add(time.Hour + tt.later)
			contents, err := inspect.Secret(secret, x509.NewCertPool(), at)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, check := range contents.Checks {
				if check.Name != tt.check {
					continue
				}
				found = true
				if check.Result != tt.want || !strings.Contains(check.Message, tt.says) {
					t.Errorf("%+v, want %s saying %q", check, tt.want, tt.says)
				}
			}
			if !found {
				t.Errorf("no check %q among %+v", tt.check, contents.Checks)
			}
			text := contents.Text(at)
			if isGood := strings.HasPrefix(text, "The certificate is good\n"); isGood == (tt.want == inspect.Bad) {
				t.Errorf("verdict of a certificate with %s: %s", tt.want, text)
			}
			if strings.Contains(text, "secret stuff") || strings.Contains(text, "PRIVATE") {
				t.Errorf("shows the key:\n%s", text)
			}
		})
	}
}

func TestSecretTrustedHere(t *testing.T) {
	i := newIssued(t)
	system := x509.NewCertPool()
	system.AddCert(i.ca.Certificate())
	contents, err := inspect.Secret(i.secret(t), system, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if last := contents.Checks[len(contents.Checks)-1]; last.Result != inspect.Good {
		t.Errorf("with the CA among this computer's roots: %+v", last)
	}
}

// An unreadable Secret leads to an error that says what the Secret contains.
func TestSecretWithoutCertificate(t *testing.T) {
	for _, tt := range []struct {
		data map[string][]byte
		want string
	}{
		{nil, "it has no data"},
		{map[string][]byte{"password": []byte("hidden"), "user": nil}, "it has password, user"},
		{map[string][]byte{"tls.crt": []byte("hidden")}, "reading tls.crt"},
	} {
		_, err := inspect.Secret(&corev1.Secret{Data: tt.data}, nil, now)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func TestSecretText(t *testing.T) {
	cert := &x509.Certificate{}
	i := newIssued(t)
	*cert = *i.chain[0]
	cert.CRLDistributionPoints, cert.OCSPServer = []string{"http://crl.example.com"}, []string{"http://ocsp.example.com"}
	text := (&inspect.Contents{Chain: []*x509.Certificate{cert}}).Text(now.Add(time.Hour))
	for _, want := range []string{
		"subject     CN=web", "issuer      CN=Test CA", "names       DNS:web.example.com", "usages      digital signature, ", "server auth",
		"not after   2026-05-02T", "(in 23h)", "key         ECDSA P-256", "CRL at      http://crl.example.com", "OCSP at     http://ocsp.example.com",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The report for machines says the same as the text for people, in fields, and
// does not contain the key.
func TestReport(t *testing.T) {
	good, other := newIssued(t), newIssued(t)
	secret := good.secret(t)
	at := now.Add(time.Hour)
	report := func() inspect.Report {
		contents, err := inspect.Secret(secret, nil, at)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := print.Found(&out, "json", contents.Report("shop", "web-tls"), nil); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "PRIVATE") {
			t.Errorf("shows the key:\n%s", out.String())
		}
		var r inspect.Report
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := report()
	if !r.Good || r.Namespace != "shop" || r.Name != "web-tls" || len(r.Checks) != 4 || len(r.Chain) != 1 || len(r.CA) != 1 {
		t.Errorf("%+v", r)
	}
	leaf := r.Chain[0]
	if leaf.Subject != "CN=web" || leaf.Issuer != "CN=Test CA" || leaf.IsCA || !r.CA[0].IsCA || leaf.Key != "ECDSA P-256" ||
		strings.Join(leaf.Names, " ") != "DNS:web.example.com" || !leaf.NotAfter.Equal(good.chain[0].NotAfter) ||
		leaf.SHA256 != pki.Fingerprint(good.chain[0]) || leaf.SerialNumber != good.chain[0].SerialNumber.Text(16) {
		t.Errorf("%+v", leaf)
	}
	secret.Data["tls.key"] = encode(t, other.key)
	if r := report(); r.Good || r.Verdict != "The certificate is not good: tls.key is of another certificate" {
		t.Errorf("%+v", r)
	}
}
