package vaulttest

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// CA is an intermediate CA, which two roots have signed.
type CA struct {
	Root, OtherRoot, Low, CrossLow *x509.Certificate
	lowKey                         crypto.Signer
	// Template, if not nil, changes what is signed.
	Template func(*x509.Certificate)
	// Now is the server's clock.
	Now func() time.Time
}

// NewCA makes a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	key, otherKey, lowKey := newKey(t), newKey(t), newKey(t)
	ca := &CA{lowKey: lowKey, Now: time.Now}
	ca.Root = Certificate(t, template("root", true), nil, key.Public(), key)
	ca.OtherRoot = Certificate(t, template("other root", true), nil, otherKey.Public(), otherKey)
	ca.Low = Certificate(t, template("low", true), ca.Root, lowKey.Public(), key)
	ca.CrossLow = Certificate(t, template("low", true), ca.OtherRoot, lowKey.Public(), otherKey)
	return ca
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func template(name string, isCA bool) *x509.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(20 * 365 * 24 * time.Hour),
		BasicConstraintsValid: true, IsCA: isCA,
	}
	if isCA {
		c.KeyUsage = x509.KeyUsageCertSign
	}
	return c
}

// Certificate makes a certificate; without a parent, a root.
func Certificate(t testing.TB, of, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	if parent == nil {
		parent = of
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Pair makes a client certificate and its key, in PEM.
func Pair(t testing.TB, name string) (certificate, key []byte) {
	t.Helper()
	made := newKey(t)
	encoded, err := pki.EncodePrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(Certificate(t, template(name, false), nil, made.Public(), made)), encoded
}

// Sign signs what a role signs that takes the names from the request.
func (ca *CA) Sign(request, ttl string) (data map[string]any, err error) {
	block, _ := pem.Decode([]byte(request))
	if block == nil {
		return nil, errors.New("csr contains no data")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	life, err := time.ParseDuration(ttl)
	if err != nil {
		return nil, err
	}
	return ca.sign(csr, life, csr.PublicKey)
}

func (ca *CA) sign(csr *x509.CertificateRequest, life time.Duration, key crypto.PublicKey) (map[string]any, error) {
	now := ca.Now()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: csr.Subject.CommonName},
		NotBefore: now.Add(-30 * time.Second), NotAfter: now.Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses, URIs: csr.URIs, EmailAddresses: csr.EmailAddresses,
		PublicKey: key,
	}
	if ca.Template != nil {
		ca.Template(leaf)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca.Low, leaf.PublicKey, ca.lowKey)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"issuing_ca":  PEM(ca.Low), "ca_chain": []string{PEM(ca.Low), PEM(ca.Root)}, "serial_number": "01",
	}, nil
}

// PEM returns a certificate in PEM.
func PEM(cert *x509.Certificate) string { return string(pki.EncodeCertificates(cert)) }
