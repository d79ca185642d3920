package pki_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

// TestCertificateOfRequest looks at everything in a certificate.
func TestCertificateOfRequest(t *testing.T) {
	root := newRoot(t)
	key := newKey(t, pki.ECDSAP256)
	req := newRequest(t, &x509.CertificateRequest{
		Subject:        pkix.Name{CommonName: "alice", Organization: []string{"b", "a"}},
		DNSNames:       []string{"alice.example.com", "*.example.com"},
		EmailAddresses: []string{"alice@example.com"},
		IPAddresses:    []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("fd00::1")},
		URIs:           []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/alice"}},
	}, key)
	usages, err := pki.ParseUsages([]string{"client auth", "digital signature", "server auth", "key encipherment"})
	if err != nil {
		t.Fatal(err)
	}
	cert := sign(t, root, pki.RequestTemplate(req, usages, hour(), big.NewInt(77)))

	type facts struct {
		Version            int
		Serial             string
		Algorithm          x509.SignatureAlgorithm
		Issuer, Subject    string
		NotBefore          time.Time
		NotAfter           time.Time
		KeyUsage           x509.KeyUsage
		ExtKeyUsage        []x509.ExtKeyUsage
		BasicConstraints   bool
		IsCA               bool
		AuthorityKeyID     []byte
		DNS, Email         []string
		IPs                []string
		URI                string
		Extensions         []string
		CriticalExtensions []string
	}
	got := facts{
		Version: cert.Version, Serial: cert.SerialNumber.String(), Algorithm: cert.SignatureAlgorithm,
		Issuer: cert.Issuer.String(), Subject: cert.Subject.String(), NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
		KeyUsage: cert.KeyUsage, ExtKeyUsage: cert.ExtKeyUsage, BasicConstraints: cert.BasicConstraintsValid, IsCA: cert.IsCA,
		AuthorityKeyID: cert.AuthorityKeyId, DNS: cert.DNSNames, Email: cert.EmailAddresses, URI: cert.URIs[0].String(),
	}
	for _, ip := range cert.IPAddresses {
		got.IPs = append(got.IPs, ip.String())
	}
	for _, extension := range cert.Extensions {
		got.Extensions = append(got.Extensions, extension.Id.String())
		if extension.Critical {
			got.CriticalExtensions = append(got.CriticalExtensions, extension.Id.String())
		}
	}
	want := facts{
		Version: 3, Serial: "77", Algorithm: x509.ECDSAWithSHA256,
		Issuer: "CN=test root", Subject: "CN=alice,O=a+O=b", NotBefore: now, NotAfter: now.Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraints: true,
		AuthorityKeyID: root.Certificate().SubjectKeyId,
		DNS:            []string{"alice.example.com", "*.example.com"}, Email: []string{"alice@example.com"},
		IPs: []string{"10.0.0.1", "fd00::1"}, URI: "spiffe://example.com/alice",
		// key usage, extended key usage, basic constraints, key identifiers, names
		Extensions:         []string{"2.5.29.15", "2.5.29.37", "2.5.29.19", "2.5.29.14", "2.5.29.35", "2.5.29.17"},
		CriticalExtensions: []string{"2.5.29.15", "2.5.29.19"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !bytes.Equal(cert.RawSubject, req.RawSubject) {
		t.Error("the subject is not, byte for byte, the requested one")
	}
	if !bytes.Equal(cert.RawSubjectPublicKeyInfo, req.RawSubjectPublicKeyInfo) {
		t.Error("the public key is not the requested one")
	}
}

func TestSubjectIsKept(t *testing.T) {
	// Order, string types, unknown attributes: nothing of this would survive
	// being parsed and encoded again.
	subject := marshal(t, pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, Value: "com"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte("alice")}}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "z"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "a"}},
	})
	req := newRequest(t, &x509.CertificateRequest{RawSubject: subject}, newKey(t, pki.ECDSAP256))
	cert := sign(t, newRoot(t), pki.RequestTemplate(req, pki.ClientUsages(), hour(), big.NewInt(1)))
	if !bytes.Equal(cert.RawSubject, subject) {
		t.Errorf("subject is %x, want %x", cert.RawSubject, subject)
	}
}

func TestRequestedExtensionsHaveNoInfluence(t *testing.T) {
	basicConstraints := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}
	keyCertSign := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 15}, Critical: true, Value: []byte{0x03, 0x02, 0x02, 0x04}}
	custom := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{0x05, 0x00}}
	req := newRequest(t, &x509.CertificateRequest{
		Subject:         pkix.Name{CommonName: "alice"},
		ExtraExtensions: []pkix.Extension{basicConstraints, keyCertSign, custom},
	}, newKey(t, pki.ECDSAP256))
	cert := sign(t, newRoot(t), pki.RequestTemplate(req, pki.Usages{}, hour(), big.NewInt(1)))
	if cert.IsCA || !cert.BasicConstraintsValid || cert.KeyUsage != 0 || len(cert.UnhandledCriticalExtensions) > 0 {
		t.Errorf("CA %v, key usage %v, unknown %v", cert.IsCA, cert.KeyUsage, cert.UnhandledCriticalExtensions)
	}
}

func TestUsageExtensionsArePresentOnlyIfUsed(t *testing.T) {
	tests := []struct {
		reason string
		names  []string
		want   []string // absent extensions
	}{
		{reason: "key usage only", names: []string{"digital signature"}, want: []string{"2.5.29.37"}},
		{reason: "extended only", names: []string{"client auth"}, want: []string{"2.5.29.15"}},
		{reason: "none", want: []string{"2.5.29.15", "2.5.29.37"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			usages, err := pki.ParseUsages(tc.names)
			if err != nil {
				t.Fatal(err)
			}
			req := newRequest(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}, newKey(t, pki.ECDSAP256))
			cert := sign(t, newRoot(t), pki.RequestTemplate(req, usages, hour(), big.NewInt(1)))
			absent := []string{}
			for _, id := range []string{"2.5.29.15", "2.5.29.37"} {
				if extension(cert, id) == nil {
					absent = append(absent, id)
				}
			}
			if diff := cmp.Diff(tc.want, absent); diff != "" {
				t.Errorf("absent extensions -want +got:\n%s", diff)
			}
		})
	}
}

func TestNamesAreCriticalWithoutSubject(t *testing.T) {
	req := newRequest(t, &x509.CertificateRequest{DNSNames: []string{"example.com"}}, newKey(t, pki.ECDSAP256))
	cert := sign(t, newRoot(t), pki.RequestTemplate(req, pki.ServerUsages(), hour(), big.NewInt(1)))
	if names := extension(cert, "2.5.29.17"); names == nil || !names.Critical {
		t.Errorf("subjectAltName is %v, want a critical one", names)
	}
}

func TestSignatureAlgorithmFollowsTheCAKey(t *testing.T) {
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		key    crypto.Signer
		want   x509.SignatureAlgorithm
	}{
		{reason: "RSA", key: newKey(t, pki.RSA2048), want: x509.SHA256WithRSA},
		{reason: "P-224", key: p224, want: x509.ECDSAWithSHA256},
		{reason: "P-256", key: newKey(t, pki.ECDSAP256), want: x509.ECDSAWithSHA256},
		{reason: "P-384", key: newKey(t, pki.ECDSAP384), want: x509.ECDSAWithSHA384},
		{reason: "P-521", key: p521, want: x509.ECDSAWithSHA512},
		{reason: "Ed25519", key: newKey(t, pki.Ed25519), want: x509.PureEd25519},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			root, err := pki.NewRoot(pki.UnrecordedSigning, "test root", tc.key, day, now)
			if err != nil {
				t.Fatal(err)
			}
			cert := sign(t, root, leafTemplate(t))
			if cert.SignatureAlgorithm != tc.want {
				t.Errorf("signed with %v, want %v", cert.SignatureAlgorithm, tc.want)
			}
			assertTrusted(t, []*x509.Certificate{cert}, root.Certificate())
		})
	}
}

func TestCAWithoutKeyID(t *testing.T) {
	// Go gives every CA an identifier, so one without has to come from
	// elsewhere; the field is all that signing looks at.
	key := newKey(t, pki.ECDSAP256)
	cert := *selfSigned(t, caTemplate("old CA"), key)
	cert.SubjectKeyId = nil
	ca, err := pki.NewAuthority([]*x509.Certificate{&cert}, key)
	if err != nil {
		t.Fatal(err)
	}
	want, err := pki.KeyID(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if leaf := sign(t, ca, leafTemplate(t)); !bytes.Equal(leaf.AuthorityKeyId, want) {
		t.Errorf("authority key identifier is %x, want %x", leaf.AuthorityKeyId, want)
	}
}

func TestKeyID(t *testing.T) {
	// Go derives the identifiers of CAs by the same method.
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
		key := newKey(t, kind)
		want := selfSigned(t, caTemplate("any"), key).SubjectKeyId
		got, err := pki.KeyID(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: identifier is %x, want %x", kind, got, want)
		}
	}
}

func TestNewSerial(t *testing.T) {
	zeros, err := pki.NewSerial(bytes.NewReader(make([]byte, 16)))
	if err != nil {
		t.Fatal(err)
	}
	if zeros.Sign() <= 0 {
		t.Errorf("serial of zero randomness is %v, want positive", zeros)
	}
	ones, err := pki.NewSerial(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)))
	if err != nil {
		t.Fatal(err)
	}
	if der := marshal(t, ones); len(der)-2 > 20 {
		t.Errorf("serial is encoded in %d octets, want at most 20", len(der)-2)
	}
	if _, err := pki.NewSerial(bytes.NewReader(make([]byte, 15))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error is %v, want the reader's", err)
	}
}

func TestOnlyLintedCanBeSigned(t *testing.T) {
	var forged pki.Linted
	if cert, err := forged.Sign(t.Context(), pki.Unrecorded, pki.Purpose{}); err == nil {
		t.Errorf("signed %v", cert.Subject)
	}
}

// brokenKey is a key store that answers with the wrong signature.
type brokenKey struct{ crypto.Signer }

func (k brokenKey) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	signature, err := k.Signer.Sign(rand, digest, opts)
	if err == nil {
		signature[len(signature)-1] ^= 1
	}
	return signature, err
}

func TestFreshSignatureIsVerified(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	ca, err := pki.NewAuthority([]*x509.Certificate{selfSigned(t, caTemplate("root"), key)}, brokenKey{key})
	if err != nil {
		t.Fatal(err)
	}
	linted, err := ca.Lint(leafTemplate(t), pki.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{}); err == nil {
		t.Error("a wrong signature was handed out")
	}
}

// A certificate leaves only after it has been recorded.
func TestSignRecords(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	ca, err := pki.NewAuthority([]*x509.Certificate{selfSigned(t, caTemplate("root"), key)}, key)
	if err != nil {
		t.Fatal(err)
	}
	linted, err := ca.Lint(leafTemplate(t), pki.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := linted.Sign(t.Context(), pki.Issuing{Rand: rand.Reader}, pki.Purpose{}); err == nil || cert != nil {
		t.Errorf("signed without a recorder: %v, %v", cert, err)
	}
	full := errors.New("disk full")
	var recorded *x509.Certificate
	record := func(_ context.Context, cert *x509.Certificate, why pki.Purpose) error {
		if recorded = cert; why.Requester == "alice" {
			return full
		}
		return nil
	}
	issuing := pki.Issuing{Rand: rand.Reader, Record: record}
	if cert, err := linted.Sign(t.Context(), issuing, pki.Purpose{Requester: "alice"}); !errors.Is(err, full) || cert != nil || recorded == nil {
		t.Errorf("a certificate that could not be recorded left: %v, %v", cert, err)
	}
	cert, err := linted.Sign(t.Context(), issuing, pki.Purpose{})
	if err != nil {
		t.Fatal(err)
	}
	if !cert.Equal(recorded) {
		t.Error("another certificate was recorded than issued")
	}
}

func TestFingerprint(t *testing.T) {
	cert := &x509.Certificate{Raw: []byte("abc")}
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4's example
	if got := pki.Fingerprint(cert); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func extension(cert *x509.Certificate, id string) *pkix.Extension {
	for i := range cert.Extensions {
		if cert.Extensions[i].Id.String() == id {
			return &cert.Extensions[i]
		}
	}
	return nil
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	der, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
