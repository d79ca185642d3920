package webhooktest

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// NewCA makes an intermediate CA with its root.
func NewCA(t testing.TB) *pki.Authority {
	t.Helper()
	root, rootKey := NewCertificate(t, nil, nil, "root", nil)
	intermediate, key := NewCertificate(t, root, rootKey, "intermediate", nil)
	ca, err := pki.NewAuthority([]*x509.Certificate{intermediate, root}, key)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// NewCertificate makes a CA certificate; with no issuer, a root. change, if not nil,
// changes the template before it is signed.
func NewCertificate(t testing.TB, issuer *x509.Certificate, issuerKey crypto.Signer, name string, change func(*x509.Certificate)) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(20 * 365 * 24 * time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	if issuer == nil {
		issuer, issuerKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func serverCertificate(t testing.TB, root *pki.Authority) tls.Certificate {
	t.Helper()
	key := newKey(t)
	names := pki.Subject{CommonName: "endpoint", IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"endpoint.example.com"}}
	chain, err := root.Issue(pki.UnrecordedSigning, names, key.Public(), pki.ServerUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{chain[0].Raw}, PrivateKey: key}
}

func newRoot(t testing.TB) *pki.Authority {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "endpoint root", newKey(t), time.Hour*24, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
