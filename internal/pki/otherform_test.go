package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestOtherForm(t *testing.T) {
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{
		"P-224": p224, "P-256": newKey(t, pki.ECDSAP256), "P-384": newKey(t, pki.ECDSAP384), "P-521": newKey(t, pki.ECDSAP521),
	} {
		ca := selfSigned(t, caTemplate("CA"), key)
		for range 100 { // of different lengths
			leaf := caTemplate("leaf")
			if name == "P-521" {
				leaf.SignatureAlgorithm = x509.ECDSAWithSHA256 // the hash does not tell the curve
			}
			cert := certificate(t, leaf, ca, key.Public(), key)
			der, ok := pki.OtherForm(cert)
			if !ok || bytes.Equal(der, cert.Raw) {
				t.Fatalf("%s: no other form", name)
			}
			other, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := other.CheckSignatureFrom(ca); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !bytes.Equal(other.RawTBSCertificate, cert.RawTBSCertificate) || pki.OtherFingerprint(cert) != pki.Fingerprint(other) {
				t.Fatalf("%s: the other form is of another certificate", name)
			}
			if again, ok := pki.OtherForm(other); !ok || !bytes.Equal(again, cert.Raw) {
				t.Fatalf("%s: the other form of the other form is not the certificate", name)
			}
		}
	}
}

func TestNoOtherForm(t *testing.T) {
	broken := *selfSigned(t, caTemplate("CA"), newKey(t, pki.ECDSAP256))
	broken.Signature = broken.Signature[1:]
	for name, cert := range map[string]*x509.Certificate{
		"RSA":     selfSigned(t, caTemplate("CA"), newKey(t, pki.RSA2048)),
		"Ed25519": selfSigned(t, caTemplate("CA"), newKey(t, pki.Ed25519)),
		"broken":  &broken,
	} {
		if der, ok := pki.OtherForm(cert); ok || der != nil || pki.OtherFingerprint(cert) != "" {
			t.Errorf("%s has another form: %x", name, der)
		}
	}
}
