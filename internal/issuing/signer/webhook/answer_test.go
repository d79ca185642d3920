package webhook

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook/webhooktest"
	"github.com/certplane/certplane/internal/pki"
)

const testUID = "4f9c7d0e"

// issuer is a CA that signs whatever it is given.
type issuer struct {
	root, intermediate *x509.Certificate
	rootKey, key       crypto.Signer
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	root, rootKey := webhooktest.NewCertificate(t, nil, nil, "root", nil)
	intermediate, key := webhooktest.NewCertificate(t, root, rootKey, "intermediate", nil)
	return issuer{root: root, intermediate: intermediate, rootKey: rootKey, key: key}
}

func (i issuer) sign(t *testing.T, template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, i.intermediate, public, i.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newTestKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newWanted is a request for an hour of client and server authentication.
func newWanted(t *testing.T) wanted {
	t.Helper()
	usages, err := pki.ParseUsages([]string{"digital signature", "client auth", "server auth"})
	if err != nil {
		t.Fatal(err)
	}
	return wanted{uid: testUID, Wanted: pki.Wanted{Key: aliceRequest(t).PublicKey, Usages: &usages, Life: new(time.Hour)}}
}

func aliceRequest(t *testing.T) *pki.Request {
	t.Helper()
	data, err := pki.NewRequest(pki.Subject{CommonName: "alice", Organizations: []string{"zoo"}, DNSNames: []string{"alice.example.com"}}, newTestKey(t))
	if err != nil {
		t.Fatal(err)
	}
	req, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// goodTemplate is what answers newWanted at the moment now.
func goodTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(7),
		Subject:      pkix.Name{CommonName: "alice", Organization: []string{"zoo"}},
		DNSNames:     []string{"alice.example.com"},
		NotBefore:    now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
}

func encode(t *testing.T, response any) []byte {
	t.Helper()
	body, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func answerWith(certs ...*x509.Certificate) v1alpha1.SigningResponse {
	request := v1alpha1.SigningRequest{UID: testUID}
	return *request.Issued(pki.EncodeCertificates(certs...))
}

// TestCertificates: what an endpoint may sign, and what it may not.
func TestCertificates(t *testing.T) {
	now := time.Now()
	sameNames := func(w *wanted) { w.Names = aliceRequest(t).CertificateRequest }
	tests := []struct {
		reason string
		change func(*x509.Certificate)
		want   func(*wanted)
		err    string
	}{
		{reason: "what was asked for"},
		{reason: "less than was asked for", change: func(c *x509.Certificate) {
			c.NotAfter = now.Add(time.Minute)
			c.ExtKeyUsage = c.ExtKeyUsage[:1]
		}},
		{reason: "clocks that differ", change: func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = now.Add(4*time.Minute), now.Add(64*time.Minute)
		}},
		{reason: "backdated", change: func(c *x509.Certificate) { c.NotBefore = now.Add(-59 * time.Minute) }},
		{
			reason: "valid for too long", change: func(c *x509.Certificate) { c.NotAfter = now.Add(66 * time.Minute) },
			err: "it is valid for 1h7m0s, longer than 1h0m0s",
		},
		{
			reason: "backdated by a day", change: func(c *x509.Certificate) { c.NotBefore = now.Add(-24 * time.Hour) },
			err: "it is valid for 25h0m0s, longer than 1h0m0s",
		},
		{reason: "expired", change: func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-2*time.Minute), now.Add(-time.Minute) }, err: "it has expired"},
		{reason: "not valid yet", change: func(c *x509.Certificate) { c.NotBefore = now.Add(10 * time.Minute) }, err: "it is not valid yet"},
		{
			reason: "a CA", change: func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, c.KeyUsage|x509.KeyUsageCertSign },
			err: "it is a CA certificate, which was not requested",
		},
		{
			reason: "a CA that was asked for", change: func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, c.KeyUsage|x509.KeyUsageCertSign },
			want: func(w *wanted) { w.CA, w.Usages.Key = true, w.Usages.Key|x509.KeyUsageCertSign },
		},
		{
			reason: "signs certificates without being a CA", change: func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign },
			err: "its key usage allows more than was requested",
		},
		{
			reason: "another key usage", change: func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageKeyEncipherment },
			err: "its key usage allows more than was requested",
		},
		{
			reason: "no key usage allows all", change: func(c *x509.Certificate) { c.KeyUsage = 0 },
			err: "it has no key usage, which allows more than was requested",
		},
		{
			reason: "a key usage where none was asked for is less", want: func(w *wanted) { w.Usages.Key = 0 },
		},
		{
			reason: "but not that of a CA", change: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign },
			want: func(w *wanted) { w.Usages.Key = 0 },
			err:  "its key usage allows more than was requested",
		},
		{
			reason: "no key usage where none was asked for", change: func(c *x509.Certificate) { c.KeyUsage = 0 },
			want: func(w *wanted) { w.Usages.Key = 0 },
		},
		{
			reason: "another extended key usage", change: func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning) },
			err: "it has an extended key usage that was not requested",
		},
		{
			reason: "any", change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} },
			err: "it has an extended key usage that was not requested",
		},
		{
			reason: "an unknown extended key usage", change: func(c *x509.Certificate) { c.UnknownExtKeyUsage = append(c.UnknownExtKeyUsage, []int{1, 3, 6, 1, 4}) },
			err: "it has an extended key usage that was not requested",
		},
		{
			reason: "no extended key usage allows all", change: func(c *x509.Certificate) { c.ExtKeyUsage = nil },
			err: "it has no extended key usage, which allows more than was requested",
		},
		{
			reason: "any extended key usage where any was asked for", change: func(c *x509.Certificate) { c.ExtKeyUsage = nil },
			want: func(w *wanted) { w.Usages.Extended = append(w.Usages.Extended, x509.ExtKeyUsageAny) },
		},
		{
			reason: "names of the signer's choice", change: func(c *x509.Certificate) { c.Subject, c.DNSNames = pkix.Name{}, []string{"other.example.com"} },
		},
		{
			reason: "a signer of Kubernetes: the same names", want: sameNames,
		},
		{
			reason: "a signer of Kubernetes: another subject", change: func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters"} },
			want: sameNames,
			err:  "its subject differs from the request's",
		},
		{
			reason: "a signer of Kubernetes: one name more", change: func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "other.example.com") },
			want: sameNames,
			err:  "its alternative names differ from the request's",
		},
		{
			reason: "a signer of Kubernetes: the name as another kind", change: func(c *x509.Certificate) {
				c.DNSNames, c.URIs = nil, []*url.URL{{Scheme: "DNS", Opaque: "alice.example.com"}}
			},
			want: sameNames,
			err:  "its alternative names differ from the request's",
		},
	}
	ca := newIssuer(t)
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w, template := newWanted(t), goodTemplate(now)
			if tc.change != nil {
				tc.change(template)
			}
			if tc.want != nil {
				tc.want(&w)
			}
			leaf := ca.sign(t, template, w.Key)
			issued, err := w.verdict(encode(t, answerWith(leaf, ca.intermediate, ca.root)), now)
			if tc.err != "" {
				assertWrong(t, issued, err, "checking the certificate: "+tc.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !issued.Certificate.Equal(leaf) || !bytes.Equal(issued.PEM, pki.EncodeCertificates(leaf, ca.intermediate)) {
				t.Errorf("the chain is not the certificate and the intermediate:\n%s", issued.PEM)
			}
		})
	}
}

// assertWrong: an answer is wrong in itself and so no verdict.
func assertWrong(t *testing.T, issued *signer.Issued, err error, want string) {
	t.Helper()
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case issued != nil || err == nil:
		t.Errorf("the answer was taken, want error %q", want)
	case errors.As(err, &permanent) || errors.As(err, &pending):
		t.Errorf("the answer was taken for the verdict %v, want error %q", err, want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("error %q, want %q", err, want)
	}
}

// TestChains: what may come with a certificate.
func TestChains(t *testing.T) {
	now := time.Now()
	w, ca, other := newWanted(t), newIssuer(t), newIssuer(t)
	leaf := ca.sign(t, goodTemplate(now), w.Key)
	pemOf := func(certs ...*x509.Certificate) string { return string(pki.EncodeCertificates(certs...)) }
	selfSigned := func() *x509.Certificate {
		key := newTestKey(t)
		w.Key = key.Public()
		self := issuer{intermediate: goodTemplate(now), key: key}
		return self.sign(t, goodTemplate(now), key.Public())
	}
	stale, staleKey := webhooktest.NewCertificate(t, ca.root, ca.rootKey, "stale", func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
	ofStale := issuer{intermediate: stale, key: staleKey}.sign(t, goodTemplate(now), w.Key)
	noCA, noCAKey := webhooktest.NewCertificate(t, ca.root, ca.rootKey, "no CA", func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature })
	ofNoCA := issuer{intermediate: noCA, key: noCAKey}.sign(t, goodTemplate(now), w.Key)
	modulus := new(big.Int).SetBit(big.NewInt(1), 20000, 1)
	outsized := issuer{intermediate: ca.root, key: ca.rootKey}.sign(t, goodTemplate(now), &rsa.PublicKey{N: modulus, E: 65537})
	tests := []struct {
		reason, chain, want, err string
	}{
		{reason: "with the root, which is left out", chain: pemOf(leaf, ca.intermediate, ca.root), want: pemOf(leaf, ca.intermediate)},
		{reason: "without the root", chain: pemOf(leaf, ca.intermediate), want: pemOf(leaf, ca.intermediate)},
		{reason: "alone", chain: pemOf(leaf), want: pemOf(leaf)},
		{reason: "text around it, which is left out", chain: "Subject: alice\n" + pemOf(leaf) + "The end.\n", want: pemOf(leaf)},
		{reason: "no PEM", chain: "AAAA", err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "a private key with it", chain: pemOf(leaf) + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", err: "only CERTIFICATE PEM blocks are allowed"},
		{reason: "headers in a block", chain: strings.Replace(pemOf(leaf), "CERTIFICATE-----\n", "CERTIFICATE-----\nA: b\n\n", 1), err: "no PEM block headers are permitted"},
		{reason: "bytes that are no certificate", chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1, 2}})), err: "reading certificate"},
		{reason: "the CA first", chain: pemOf(ca.intermediate, leaf), err: "certificate is for another key than the request"},
		{reason: "another key", chain: pemOf(ca.sign(t, goodTemplate(now), newTestKey(t).Public())), err: "certificate is for another key than the request"},
		{reason: "another CA", chain: pemOf(leaf, other.intermediate), err: "verifying with the certificate that follows it"},
		{reason: "the root without the intermediate", chain: pemOf(leaf, ca.root), err: "is issued by"},
		{reason: "the wrong order", chain: pemOf(leaf, ca.root, ca.intermediate), err: "is issued by"},
		{reason: "something after the root", chain: pemOf(leaf, ca.intermediate, ca.root, other.root), err: "is a root, so nothing may follow it"},
		{reason: "an issuer that is no CA", chain: pemOf(ofNoCA, noCA), err: "parent certificate cannot sign"},
		{reason: "an issuer that has expired", chain: pemOf(ofStale, stale), err: `the CA "CN=stale" that comes with it is not valid now`},
		{reason: "too many", chain: pemOf(slices.Repeat([]*x509.Certificate{leaf}, 11)...), err: "certificate has 11 certificates, more than 10"},
		{reason: "a key so large that it takes minutes", chain: pemOf(leaf, outsized), err: "larger than the supported 16384 bits"},
		{reason: "self-signed", chain: pemOf(selfSigned()), err: "is self-signed"}, // the last: it changes the request
	}
	for _, tc := range tests {
		own := w
		if tc.reason != "self-signed" {
			own.Key = leaf.PublicKey
		}
		t.Run(tc.reason, func(t *testing.T) {
			issued, err := own.verdict(encode(t, v1alpha1.SigningResponse{
				APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.ResponseKind, UID: testUID, Certificate: tc.chain,
			}), now)
			if tc.err != "" {
				assertWrong(t, issued, err, tc.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(issued.PEM)); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEnvelopes: what surrounds the answer proper.
func TestEnvelopes(t *testing.T) {
	const head = `{"apiVersion":"signing.certplane.dev/v1alpha1","kind":"SigningResponse","uid":"4f9c7d0e"`
	tests := []struct{ reason, body, err string }{
		{"nothing", ``, "reading the JSON"},
		{"no JSON", `<html>`, "reading the JSON"},
		{"null", `null`, "apiVersion and kind must be"},
		{"a list", `[]`, "reading the JSON"},
		{"more than one object", head + `,"pending":{}} {}`, "reading the JSON"},
		{"another version", `{"apiVersion":"signing.certplane.dev/v2","kind":"SigningResponse","uid":"4f9c7d0e","pending":{}}`, "apiVersion and kind must be"},
		{"another kind", `{"apiVersion":"signing.certplane.dev/v1alpha1","kind":"SigningRequest","uid":"4f9c7d0e","pending":{}}`, "apiVersion and kind must be"},
		{"the answer to another request", `{"apiVersion":"signing.certplane.dev/v1alpha1","kind":"SigningResponse","uid":"x","pending":{}}`, "uid is not the UID of the request"},
		{"no answer", head + `}`, "exactly one of certificate, pending and failed must be set"},
		{"two answers", head + `,"pending":{},"failed":{"reason":"No","message":"no"}}`, "exactly one of"},
		{"a misspelt field", head + `,"pending":{"retryAfter":5}}`, `unknown field "pending.retryAfter"`},
		{"another case", head + `,"Pending":{}}`, `unknown field "Pending"`},
		{"the same field twice", head + `,"pending":{},"pending":{}}`, `duplicate field "pending"`},
		{"a wrong type", head + `,"certificate":["x"]}`, "reading the JSON"},
		{"a wait into the past", head + `,"pending":{"retryAfterSeconds":-1}}`, "pending.retryAfterSeconds must be between 0 and a day"},
		{"a wait for more than a day", head + `,"pending":{"retryAfterSeconds":86401}}`, "pending.retryAfterSeconds must be between"},
		{"a wait that overflows", head + `,"pending":{"retryAfterSeconds":9223372036854775807}}`, "pending.retryAfterSeconds must be between"},
		{"no reason", head + `,"failed":{"reason":"","message":"no"}}`, "failed.reason must be one word"},
		{"a reason that is a sentence", head + `,"failed":{"reason":"Not allowed","message":"no"}}`, "failed.reason must be one word"},
		{"a long reason", head + `,"failed":{"reason":"` + strings.Repeat("A", 65) + `","message":"no"}}`, "failed.reason must be one word"},
		{"no message", head + `,"failed":{"reason":"No","message":" "}}`, "failed.message must explain what is wrong"},
	}
	w := newWanted(t)
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			issued, err := w.verdict([]byte(tc.body), time.Now())
			assertWrong(t, issued, err, tc.err)
		})
	}
}

func TestVerdicts(t *testing.T) {
	request := v1alpha1.SigningRequest{UID: testUID}
	const needsTime = "the signer received the request and needs more time"
	tests := []struct {
		reason    string
		answer    *v1alpha1.SigningResponse
		permanent bool
		kind      string
		message   string
		after     time.Duration
	}{
		{reason: "pending", answer: request.Postponed(90*time.Second, "the officer sleeps"), kind: "SignerPending", message: "the officer sleeps", after: 90 * time.Second},
		{reason: "pending, for parts of a second", answer: request.Postponed(time.Millisecond, ""), kind: "SignerPending", message: needsTime, after: time.Second},
		{reason: "pending, for as long as we like", answer: request.Postponed(0, ""), kind: "SignerPending", message: needsTime, after: 10 * time.Second},
		{reason: "failed", answer: request.Refused("NotInInventory", "no such host"), permanent: true, kind: "NotInInventory", message: "no such host"},
		{reason: "text that plays with terminals", answer: request.Refused("No", "a\x1b[2J\nb\u202ec"), permanent: true, kind: "No", message: "a [2J b c"},
		{reason: "text without end", answer: request.Refused("No", strings.Repeat("é", 600)), permanent: true, kind: "No", message: strings.Repeat("é", 512)},
	}
	w := newWanted(t)
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			issued, err := w.verdict(encode(t, tc.answer), time.Now())
			if issued != nil {
				t.Fatal("a certificate")
			}
			var permanent *signer.PermanentError
			var pending *signer.PendingError
			switch {
			case errors.As(err, &permanent) && tc.permanent:
				if permanent.Reason != tc.kind || err.Error() != tc.message {
					t.Errorf("verdict %s %q", permanent.Reason, err)
				}
			case errors.As(err, &pending) && !tc.permanent:
				if pending.Reason != tc.kind || pending.Message != tc.message || pending.RetryAfter != tc.after {
					t.Errorf("verdict %s %q after %v", pending.Reason, pending.Message, pending.RetryAfter)
				}
			default:
				t.Errorf("error is %T %v", err, err)
			}
		})
	}
}

// FuzzVerdict: for any answer of an endpoint, an accepted certificate is for
// the request's key.
func FuzzVerdict(f *testing.F) {
	request := v1alpha1.SigningRequest{UID: testUID}
	key := newTestKey(f)
	for _, answer := range []any{request.Postponed(time.Second, "x"), request.Refused("No", "no"), request.Issued([]byte("x"))} {
		body, err := json.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	w := wanted{uid: testUID, Wanted: pki.Wanted{Key: key.Public(), Life: new(time.Hour)}}
	f.Fuzz(func(t *testing.T, body []byte) {
		issued, err := w.verdict(body, time.Now())
		if (issued == nil) == (err == nil) {
			t.Fatalf("%v, %v", issued, err)
		}
		if issued != nil && !pki.SameKey(issued.Certificate.PublicKey, key.Public()) {
			t.Error("a certificate for another key")
		}
	})
}
