package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func block(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

func TestParseCertificates(t *testing.T) {
	one, two := newRoot(t).Certificate(), newRoot(t).Certificate()
	onePEM, twoPEM := block("CERTIFICATE", one.Raw), block("CERTIFICATE", two.Raw)
	tests := []struct {
		reason string
		data   string
		want   []*x509.Certificate
		err    string // beginning of the error
	}{
		{reason: "one", data: onePEM, want: []*x509.Certificate{one}},
		{reason: "order is kept", data: twoPEM + onePEM, want: []*x509.Certificate{two, one}},
		{reason: "text around blocks", data: "before\n" + onePEM + "between\n" + twoPEM + "after", want: []*x509.Certificate{one, two}},
		{reason: "two in one block", data: block("CERTIFICATE", append(bytes.Clone(one.Raw), two.Raw...)), want: []*x509.Certificate{one, two}},
		{reason: "a broken block is invisible", data: onePEM + "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", want: []*x509.Certificate{one}},
		{reason: "nothing", err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "no PEM", data: "hello", err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "DER", data: string(one.Raw), err: "must contain at least one CERTIFICATE PEM block"},
		{reason: "other label", data: onePEM + block("PRIVATE KEY", nil), err: `only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"`},
		{
			reason: "headers",
			data:   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Raw, Headers: map[string]string{"a": "b"}})),
			err:    "no PEM block headers are permitted",
		},
		{reason: "empty block", data: block("CERTIFICATE", nil), err: "found CERTIFICATE PEM block containing 0 certificates"},
		{reason: "junk in a block", data: block("CERTIFICATE", []byte("junk")), err: "x509: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := pki.ParseCertificates([]byte(tc.data))
			if (tc.err == "") != (err == nil) || !strings.HasPrefix(text(err), tc.err) {
				t.Fatalf("error %q, want %q", text(err), tc.err)
			}
			if diff := cmp.Diff(fingerprints(tc.want), fingerprints(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseBundleSkipsOtherBlocks(t *testing.T) {
	one, two := newRoot(t).Certificate(), newRoot(t).Certificate()
	data := block("PRIVATE KEY", []byte("secret")) + block("CERTIFICATE", one.Raw) + block("EC PARAMETERS", nil) + block("CERTIFICATE", two.Raw)
	got, err := pki.ParseBundle([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fingerprints([]*x509.Certificate{one, two}), fingerprints(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := pki.ParseBundle([]byte(block("PRIVATE KEY", nil))); text(err) != "must contain at least one CERTIFICATE PEM block" {
		t.Errorf("error %q for a bundle without certificates", text(err))
	}
}

func TestEncodeCertificates(t *testing.T) {
	want := []*x509.Certificate{newRoot(t).Certificate(), newRoot(t).Certificate()}
	got, err := pki.ParseCertificates(pki.EncodeCertificates(want...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fingerprints(want), fingerprints(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func fingerprints(certs []*x509.Certificate) []string {
	var sums []string
	for _, cert := range certs {
		sums = append(sums, pki.Fingerprint(cert))
	}
	return sums
}

func TestPrivateKeyRoundTrip(t *testing.T) {
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.ECDSAP384, pki.Ed25519, pki.RSA2048} {
		want := newKey(t, kind)
		data, err := pki.EncodePrivateKey(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pki.ParsePrivateKey(data)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		assertSameKey(t, want, got)
		if !strings.HasPrefix(string(data), "-----BEGIN PRIVATE KEY-----\n") {
			t.Errorf("%s: not PKCS#8", kind)
		}
	}
}

func TestParsePrivateKey(t *testing.T) {
	ec, r := newKey(t, pki.ECDSAP256), newKey(t, pki.RSA2048)
	sec1, err := x509.MarshalECPrivateKey(ec.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PrivateKey(r.(*rsa.PrivateKey))
	tests := []struct {
		reason string
		data   string
		want   crypto.Signer
		err    string // part of the error
	}{
		{reason: "SEC 1", data: block("EC PRIVATE KEY", sec1), want: ec},
		{reason: "openssl ecparam's preamble", data: block("EC PARAMETERS", []byte{6, 0}) + block("EC PRIVATE KEY", sec1), want: ec},
		{reason: "PKCS#1", data: block("RSA PRIVATE KEY", pkcs1), want: r},
		{reason: "behind its certificate", data: block("CERTIFICATE", []byte("x")) + block("RSA PRIVATE KEY", pkcs1), want: r},
		{reason: "nothing", err: "no private key found"},
		{reason: "a public key", data: block("PUBLIC KEY", nil), err: "no private key found"},
		{reason: "encrypted PKCS#8", data: block("ENCRYPTED PRIVATE KEY", nil), err: "private key is encrypted"},
		{
			reason: "encrypted in the old way",
			data:   string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}})),
			err:    "private key is encrypted",
		},
		{reason: "junk", data: block("PRIVATE KEY", []byte("secret-junk")), err: "parsing PRIVATE KEY: "},
		{reason: "cut off", data: block("EC PRIVATE KEY", sec1[:len(sec1)-9]), err: "parsing EC PRIVATE KEY: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := pki.ParsePrivateKey([]byte(tc.data))
			if (tc.err == "") != (err == nil) || !strings.Contains(text(err), tc.err) {
				t.Fatalf("error %q, want %q", text(err), tc.err)
			}
			if strings.Contains(text(err), "secret") {
				t.Errorf("error shows the key: %v", err)
			}
			if err == nil {
				assertSameKey(t, tc.want, got)
			}
		})
	}
}

func assertSameKey(t *testing.T, want, got crypto.Signer) {
	t.Helper()
	if !want.(interface{ Equal(crypto.PrivateKey) bool }).Equal(got) {
		t.Error("not the same key")
	}
}

func TestParsePrivateKeyBoundsWork(t *testing.T) {
	for _, kind := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"} {
		if _, err := pki.ParsePrivateKey([]byte(block(kind, make([]byte, 10_001)))); !strings.Contains(text(err), "larger than the supported") {
			t.Errorf("%s: error %q", kind, text(err))
		}
	}
}
