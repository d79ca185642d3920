package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func FuzzRequest(f *testing.F) {
	for _, der := range requestSeeds(f) {
		f.Add(pem.EncodeToMemory(&pem.Block{Type: pki.RequestBlockType, Bytes: der}))
	}
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte("text\n-----BEGIN CERTIFICATE REQUEST-----\na: b\n\nMAA=\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := pki.ParseRequest(data)
		if err != nil {
			return
		}
		if pki.VerifyRequest(req.CertificateRequest) == nil && req.PublicKey == nil {
			t.Error("verified a request without a key")
		}
	})
}

func FuzzCertificates(f *testing.F) {
	one, two := newRoot(f).Certificate(), newRoot(f).Certificate()
	f.Add(pki.EncodeCertificates(one))
	f.Add(pki.EncodeCertificates(one, two))
	f.Add([]byte(block("CERTIFICATE", append(bytes.Clone(one.Raw), two.Raw...))))
	f.Add([]byte(block("CERTIFICATE", nil)))
	f.Add([]byte(block("PRIVATE KEY", nil)))
	f.Add([]byte("text\n-----BEGIN CERTIFICATE-----\na: b\n\nMAA=\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		certs, err := pki.ParseCertificates(data)
		if err != nil {
			return
		}
		again, err := pki.ParseCertificates(pki.EncodeCertificates(certs...))
		if err != nil || !slices.EqualFunc(certs, again, (*x509.Certificate).Equal) {
			t.Errorf("does not survive being written: %v", err)
		}
		bundle, err := pki.ParseBundle(data)
		if err != nil || !slices.EqualFunc(certs, bundle, (*x509.Certificate).Equal) {
			t.Errorf("is another bundle: %v", err)
		}
	})
}

func FuzzPrivateKey(f *testing.F) {
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.Ed25519} {
		data, err := pki.EncodePrivateKey(newKey(f, kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(block("EC PRIVATE KEY", []byte{0x30, 0})))
	f.Fuzz(func(t *testing.T, data []byte) {
		if key, err := pki.ParsePrivateKey(data); err == nil && key.Public() == nil {
			t.Error("a private key without a public one")
		}
	})
}

// FuzzIssue: for any request, only a valid end-entity certificate with the
// names of the request is signed.
func FuzzIssue(f *testing.F) {
	for i, der := range requestSeeds(f) {
		f.Add(der, uint32(1)<<i|0xa)
	}
	root := newRoot(f)
	f.Fuzz(func(t *testing.T, der []byte, bits uint32) {
		req, err := x509.ParseCertificateRequest(der)
		if err != nil {
			return
		}
		usages, err := pki.ParseUsages(usageNames(bits))
		if err != nil {
			t.Fatal(err)
		}
		serial, err := pki.NewSerial(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		linted, err := root.Lint(pki.RequestTemplate(req, usages, hour(), serial), pki.Policy{MinRSABits: 1024})
		if err != nil {
			return
		}
		cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
		if err != nil {
			t.Fatalf("what the linter has passed cannot be signed: %v", err)
		}
		assertSound(t, cert, req, usages)
		assertTrusted(t, root.Chain(cert), root.Certificate())
	})
}

func assertSound(t *testing.T, cert *x509.Certificate, req *x509.CertificateRequest, usages pki.Usages) {
	t.Helper()
	if cert.IsCA || !cert.BasicConstraintsValid || cert.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("it can act as a CA")
	}
	if cert.KeyUsage != usages.Key || !slices.Equal(cert.ExtKeyUsage, usages.Extended) {
		t.Errorf("usages are %v %v, want %v", cert.KeyUsage, cert.ExtKeyUsage, usages)
	}
	if !bytes.Equal(cert.RawSubject, req.RawSubject) || !bytes.Equal(cert.RawSubjectPublicKeyInfo, req.RawSubjectPublicKeyInfo) {
		t.Error("subject or key is not the requested one")
	}
	if !slices.Equal(cert.DNSNames, req.DNSNames) || !slices.Equal(cert.EmailAddresses, req.EmailAddresses) ||
		!slices.EqualFunc(cert.IPAddresses, req.IPAddresses, net.IP.Equal) || len(cert.URIs) != len(req.URIs) {
		t.Error("names are not the requested ones")
	}
	if len(cert.UnhandledCriticalExtensions) > 0 {
		t.Error("it has an unknown critical extension")
	}
}

func usageNames(bits uint32) []string {
	all := []string{"signing", "digital signature", "key encipherment", "client auth", "server auth", "cert sign", "crl sign",
		"any", "s/mime", "email protection", "encipher only", "ocsp signing", "netscape sgc"}
	var names []string
	for i, name := range all {
		if bits&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// requestSeeds are requests of all kinds, in DER.
func requestSeeds(f *testing.F) [][]byte {
	ec := newKey(f, pki.ECDSAP256)
	named := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}},
		DNSNames: []string{"a.example.com", "*.example.com"}, EmailAddresses: []string{"a@example.com"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1), net.IPv6loopback}, URIs: []*url.URL{{Scheme: "spiffe", Host: "a", Path: "/b"}},
	}
	extended := &x509.CertificateRequest{
		RawSubject:      marshal(f, pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "uid"}}}),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}
	return [][]byte{
		newRequest(f, named, ec).Raw,
		newRequest(f, extended, ec).Raw,
		newRequest(f, &x509.CertificateRequest{}, newKey(f, pki.Ed25519)).Raw,
		newRequest(f, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "rsa"}}, newKey(f, pki.RSA2048)).Raw,
		newRequest(f, &x509.CertificateRequest{DNSNames: []string{"only.example.com"}}, newKey(f, pki.ECDSAP384)).Raw,
	}
}
