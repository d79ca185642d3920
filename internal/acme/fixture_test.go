package acme_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newPool returns a pool without jitter. change, if there is one, changes its
// configuration.
func newPool(t testing.TB, change func(*acme.PoolConfig)) *acme.Pool {
	t.Helper()
	cfg := acme.PoolConfig{UserAgent: "test", Jitter: func(time.Duration) time.Duration { return 0 }}
	if change != nil {
		change(&cfg)
	}
	p, err := acme.NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newClient returns a client with an account of its own.
func newClient(t testing.TB, p *acme.Pool, s *acmetest.Server) *acme.Client {
	t.Helper()
	c := unregistered(t, p, s, newKey(t))
	if _, err := c.Register(t.Context(), acme.Registration{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func unregistered(t testing.TB, p *acme.Pool, s *acmetest.Server, key crypto.Signer) *acme.Client {
	t.Helper()
	c, err := p.Client(acme.Config{Directory: s.Directory(), Key: key, CABundle: s.CABundle()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(values ...string) rfc8555.OrderRequest {
	var r rfc8555.OrderRequest
	for _, value := range values {
		r.Identifiers = append(r.Identifiers, rfc8555.Identifier{Type: rfc8555.IdentifierDNS, Value: value})
	}
	return r
}

func newCSR(t testing.TB, names ...string) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// problem returns the problem in an error.
func problem(t testing.TB, err error) *rfc8555.Problem {
	t.Helper()
	p := &rfc8555.Problem{}
	if !errors.As(err, &p) {
		t.Fatalf("%v is not a problem", err)
	}
	return p
}
