package keystore

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// ca is a CA certificate with its key, as tests make them.
type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newCA makes a CA below parent, or a root when that is nil. Tests change the
// template.
func newCA(t testing.TB, name string, kind pki.KeyType, parent *ca, change ...func(*x509.Certificate)) *ca {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-day), NotAfter: now.Add(365 * day),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
	}
	for _, c := range change {
		c(template)
	}
	if parent == nil {
		parent = &ca{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{cert: cert, key: key}
}

func (c *ca) certPEM() string { return string(pki.EncodeCertificates(c.cert)) }

func (c *ca) keyPEM(t testing.TB) string {
	t.Helper()
	data, err := pki.EncodePrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pairIn writes a CA into a folder and returns the settings for it.
func pairIn(t testing.TB, dir, cert, key string) Settings {
	t.Helper()
	s := Settings{CertFile: filepath.Join(dir, "ca.crt"), KeyFile: filepath.Join(dir, "ca.key")}
	write(t, s.CertFile, cert)
	write(t, s.KeyFile, key)
	return s
}

// issues holds a store to signing with a CA, in a certificate that verifies.
func issues(t testing.TB, s *Store, by *ca) {
	t.Helper()
	authority, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	if !authority.Certificate().Equal(by.cert) {
		t.Fatalf("the CA is %s, want %s", authority.Certificate().Subject, by.cert.Subject)
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := authority.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "leaf"}, key.Public(), pki.ClientUsages(), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := chain[0].CheckSignatureFrom(by.cert); err != nil {
		t.Error(err)
	}
}
