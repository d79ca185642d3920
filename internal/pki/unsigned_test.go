package pki_test

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

// Without its signature, a request is the same, whatever the key.
func TestUnsigned(t *testing.T) {
	content := pki.Content{
		RawSubject: marshal(t, pkix.Name{CommonName: "a", Organization: []string{"b", "c"}}.ToRDNSequence()), Names: allNames(t),
		Usages: &pki.Usages{Key: x509.KeyUsageDigitalSignature, Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
	}
	for _, kind := range pki.KeyTypes() {
		for reason, c := range map[string]pki.Content{"everything": content, "nothing": {}} {
			key := newKey(t, kind)
			signed := parseContent(t, c, key)
			data, err := c.Unsigned(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			unsigned, err := pki.ParseRequest(data)
			if err != nil {
				t.Fatalf("%s, %s: %v", kind, reason, err)
			}
			if !bytes.Equal(unsigned.RawTBSCertificateRequest, signed.RawTBSCertificateRequest) || unsigned.SignatureAlgorithm != signed.SignatureAlgorithm {
				t.Errorf("%s, %s: another content, or %v instead of %v", kind, reason, unsigned.SignatureAlgorithm, signed.SignatureAlgorithm)
			}
			if err := unsigned.Strict(); err != nil {
				t.Errorf("%s, %s: %v", kind, reason, err)
			}
			if pki.VerifyRequest(unsigned.CertificateRequest) == nil {
				t.Errorf("%s, %s: the signature verifies", kind, reason)
			}
		}
	}
	if _, err := (pki.Content{Algorithm: x509.MD5WithRSA}).Unsigned(newKey(t, pki.RSA2048).Public()); err == nil {
		t.Error("an algorithm that is not supported is accepted")
	}
}

func TestPlaceholderKey(t *testing.T) {
	for _, kind := range pki.KeyTypes() {
		key, err := pki.PlaceholderKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := pki.KubernetesKeyType(key), pki.KubernetesKeyType(newKey(t, kind).Public()); got != want {
			t.Errorf("%s: it is of the type %s", kind, got)
		}
		if again, err := pki.PlaceholderKey(kind); err != nil || !pki.SameKey(key, again) {
			t.Errorf("%s: it changes: %v", kind, err)
		}
	}
	if key, err := pki.PlaceholderRSAKey(2056); err != nil || key.(*rsa.PublicKey).N.BitLen() != 2056 {
		t.Errorf("2056 bits: %v", err)
	}
	for _, bits := range []int{0, 1024, 1 << 30} {
		if _, err := pki.PlaceholderRSAKey(bits); err == nil {
			t.Errorf("%d bits are accepted", bits)
		}
	}
	if _, err := pki.PlaceholderKey("x"); err == nil {
		t.Error("an unknown type is accepted")
	}
}
