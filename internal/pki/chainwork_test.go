package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"
)

// namesakes are CAs of one name in every respect but their bytes, each issued by
// the same key.
func namesakes(t *testing.T, n int, withIDs bool) []*x509.Certificate {
	t.Helper()
	keys := make([]crypto.Signer, 2)
	for i := range keys {
		var err error
		if keys[i], err = GenerateKey(Ed25519); err != nil {
			t.Fatal(err)
		}
	}
	var certs []*x509.Certificate
	for i := range n {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "a"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
			BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
		}
		parent := *template
		if withIDs {
			template.SubjectKeyId, parent.SubjectKeyId = []byte{byte(i)}, []byte{byte(i + 1)}
		} else {
			template.SubjectKeyId, parent.SubjectKeyId = []byte{1}, []byte{1}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, &parent, keys[0].Public(), keys[1])
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, cert)
	}
	return certs
}

// For any content of a Secret, only a few signatures are verified: each can
// take milliseconds.
func TestChainWork(t *testing.T) {
	for _, tc := range []struct {
		reason string
		certs  []*x509.Certificate
	}{
		{"all may have issued all", namesakes(t, maxChain, false)},
		{"key identifiers tell who may have", namesakes(t, maxChain, true)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			checks := 0
			b, err := newChainBuilder(tc.certs)
			if err == nil {
				_, err = b.path()
				checks = len(b.verified)
			}
			if err != nil {
				t.Fatal(err)
			}
			if checks == 0 || checks > maxChecks {
				t.Errorf("%d signatures verified, at most %d may be", checks, maxChecks)
			}
			// All are certificates of one CA, whose issuer is not among them.
			if chain, err := BuildChain(tc.certs); err != nil || len(chain.Certificates) != 1 {
				t.Errorf("chain %v, %v", chain, err)
			}
		})
	}
	data := EncodeCertificates(namesakes(t, maxChain+1, false)...)
	if _, err := ParseChain(data); err == nil || !strings.Contains(err.Error(), "more than 20 certificates are too many for a chain") {
		t.Errorf("too many: %v", err)
	}
	if certs, err := ParseChain(EncodeCertificates(namesakes(t, maxChain, false)...)); err != nil || len(certs) != maxChain {
		t.Errorf("as many as can be: %d, %v", len(certs), err)
	}
	if cert, err := ParseFirst(data); err != nil || cert.SerialNumber.Int64() != 1 {
		t.Errorf("the first: %v", err)
	}
	if _, err := ParseFirst([]byte("text")); err == nil {
		t.Error("there is none")
	}
}

// Outsized keys are refused before one of their signatures is verified.
func TestChainKeys(t *testing.T) {
	for bits, fits := range map[int]bool{2048: true, MaxRSAKey: true, MaxRSAKey + 8: false, maxRSABits: false} {
		n := new(big.Int).SetBit(big.NewInt(1), bits-1, 1)
		err := checkChainKey(&rsa.PublicKey{N: n, E: 65537})
		if (err == nil) != fits {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}
