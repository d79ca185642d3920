package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestParseRequest(t *testing.T) {
	data, err := pki.NewRequest(pki.Subject{CommonName: "alice"}, newKey(t, pki.ECDSAP256))
	if err != nil {
		t.Fatal(err)
	}
	request := string(data)
	der, _ := pem.Decode(data)
	tests := []struct {
		reason  string
		data    string
		notPEM  bool
		invalid bool
	}{
		{reason: "the block alone", data: request},
		{reason: "text before", data: "hello\n" + request},
		{reason: "what follows is ignored", data: request + block("PRIVATE KEY", nil) + "junk"},
		{reason: "headers are ignored", data: strings.Replace(request, "REQUEST-----\n", "REQUEST-----\na: b\n\n", 1)},
		{reason: "a broken block before", data: "-----BEGIN X-----\n!\n-----END X-----\n" + request},
		{reason: "nothing", notPEM: true},
		{reason: "DER", data: string(der.Bytes), notPEM: true},
		{reason: "old label", data: strings.ReplaceAll(request, "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"), notPEM: true},
		{reason: "another block first", data: block("PRIVATE KEY", nil) + request, notPEM: true},
		{reason: "1 MB of junk", data: strings.Repeat("-----BEGIN CERTIFICATE REQUEST-----\n", 1<<15), notPEM: true},
		{reason: "no request inside", data: block("CERTIFICATE REQUEST", []byte("junk")), invalid: true},
		{reason: "trailing bytes inside", data: block("CERTIFICATE REQUEST", append(der.Bytes[:len(der.Bytes):len(der.Bytes)], 0)), invalid: true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			req, err := pki.ParseRequest([]byte(tc.data))
			if errors.Is(err, pki.ErrRequestBlockType) != tc.notPEM || (err != nil) != (tc.notPEM || tc.invalid) {
				t.Fatalf("error %v", err)
			}
			if err == nil && req.Subject.CommonName != "alice" {
				t.Errorf("parsed a request of %s", req.Subject)
			}
		})
	}
}

func TestVerifyRequest(t *testing.T) {
	good := newRequest(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}, newKey(t, pki.ECDSAP256))
	tests := []struct {
		reason string
		change func(*x509.CertificateRequest)
		want   string
	}{
		{reason: "unchanged"},
		{reason: "somebody else's key", change: func(r *x509.CertificateRequest) { r.PublicKey = newKey(t, pki.ECDSAP256).Public() }, want: "verification failure"},
		{
			reason: "changed after signing",
			change: func(r *x509.CertificateRequest) { r.RawTBSCertificateRequest = r.RawTBSCertificateRequest[1:] },
			want:   "verification failure",
		},
		{reason: "MD5", change: func(r *x509.CertificateRequest) { r.SignatureAlgorithm = x509.MD5WithRSA }, want: "insecure algorithm"},
		{
			reason: "a key that would take minutes",
			change: func(r *x509.CertificateRequest) { r.PublicKey = rsaKey(1 << 22) },
			want:   "RSA key of 4194304 bits is larger than the supported 16384 bits",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			req := *good
			if tc.change != nil {
				tc.change(&req)
			}
			got := text(pki.VerifyRequest(&req))
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}
