package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

func newKey(t testing.TB, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRoot(t testing.TB) *pki.Authority {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "test root", newKey(t, pki.ECDSAP256), pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// caTemplate is a good CA certificate; tests change it.
func caTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-day),
		NotAfter:              now.Add(365 * day),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

// certificate signs what the product would never sign.
func certificate(t testing.TB, template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func selfSigned(t testing.TB, template *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	return certificate(t, template, template, key.Public(), key)
}

// hierarchy is a root with an intermediate below it and one more below that.
type hierarchy struct {
	certs [3]*x509.Certificate // the lowest first
	keys  [3]crypto.Signer
}

func newHierarchy(t testing.TB, change func(certs [3]*x509.Certificate)) hierarchy {
	t.Helper()
	templates := [3]*x509.Certificate{caTemplate("low"), caTemplate("middle"), caTemplate("root")}
	if change != nil {
		change(templates)
	}
	var h hierarchy
	for i := range h.keys {
		h.keys[i] = newKey(t, pki.ECDSAP256)
	}
	h.certs[2] = selfSigned(t, templates[2], h.keys[2])
	h.certs[1] = certificate(t, templates[1], h.certs[2], h.keys[1].Public(), h.keys[2])
	h.certs[0] = certificate(t, templates[0], h.certs[1], h.keys[0].Public(), h.keys[1])
	return h
}

// newRequest makes a request that NewRequest would not.
func newRequest(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) *x509.CertificateRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	req, err := pki.ParseRequest(pem.EncodeToMemory(&pem.Block{Type: pki.RequestBlockType, Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return req.CertificateRequest
}

func sign(t testing.TB, ca *pki.Authority, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	linted, err := ca.Lint(template, pki.Policy{MinRSABits: 1024})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func hour() pki.Validity { return pki.Validity{NotBefore: now, NotAfter: now.Add(time.Hour)} }

// tbs is the content of a certificate, for what CreateCertificate does not write.
type tbs struct {
	Version    int `asn1:"explicit,tag:0"`
	Serial     *big.Int
	Algorithm  pkix.AlgorithmIdentifier
	Issuer     asn1.RawValue
	Validity   asn1.RawValue
	Subject    asn1.RawValue
	Key        asn1.RawValue
	IssuerID   asn1.BitString   `asn1:"optional,tag:1"`
	SubjectID  asn1.BitString   `asn1:"optional,tag:2"`
	Extensions []pkix.Extension `asn1:"omitempty,optional,explicit,tag:3"`
}

// reissued returns a certificate with another content, signed with an ECDSA key.
func reissued(t testing.TB, cert *x509.Certificate, key crypto.Signer, change func(*testing.T, *tbs)) []byte {
	t.Helper()
	var content tbs
	if _, err := asn1.Unmarshal(cert.RawTBSCertificate, &content); err != nil {
		t.Fatal(err)
	}
	change(t.(*testing.T), &content)
	der, err := asn1.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := crypto.SignMessage(key, rand.Reader, der, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := asn1.Marshal(struct {
		Content   asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: der}, content.Algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}
