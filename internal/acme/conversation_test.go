package acme_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// A certificate is ordered from the first request to the last, with each type of
// account key.
func TestIssue(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for reason, key := range map[string]crypto.Signer{"RSA": rsaKey, "P-256": newKey(t), "P-384": p384, "P-521": p521} {
		t.Run(reason, func(t *testing.T) {
			var validated acmetest.Validation
			s := acmetest.Start(t, acmetest.Options{
				Processing: 1, RetryAfter: "7",
				Validate: func(v acmetest.Validation) acmetest.Verdict { validated = v; return acmetest.Verdict{} },
			})
			c := unregistered(t, newPool(t, nil), s, key)
			account, err := c.Register(t.Context(), acme.Registration{Contact: []string{"mailto:a@example.com"}})
			if err != nil || account.URL == "" || account.URL != c.Account() {
				t.Fatalf("%+v, %v", account, err)
			}
			issue(t, s, c, &validated)
		})
	}
}

func issue(t *testing.T, s *acmetest.Server, c *acme.Client, validated *acmetest.Validation) {
	t.Helper()
	order, err := c.NewOrder(t.Context(), names("a.example.com"))
	if err != nil || order.Status != rfc8555.StatePending || len(order.Authorizations) != 1 {
		t.Fatalf("%+v, %v", order, err)
	}
	authorization, err := c.Authorization(t.Context(), order.Authorizations[0])
	if err != nil || len(authorization.Challenges) != 3 || authorization.RetryAfter.IsZero() {
		t.Fatalf("%+v, %v", authorization, err)
	}
	challenge, err := c.Accept(t.Context(), authorization.Challenges[0].URL)
	if err != nil || challenge.Status != rfc8555.StateValid {
		t.Fatalf("%+v, %v", challenge, err)
	}
	if want := c.KeyAuthorization(challenge.Token); validated.KeyAuthorization != want {
		t.Errorf("the server expects the key authorization %q, the client has %q", validated.KeyAuthorization, want)
	}
	if order, err = c.Finalize(t.Context(), order.Finalize, order.URL, newCSR(t, "a.example.com")); err != nil || order.Status != rfc8555.StateProcessing {
		t.Fatalf("%+v, %v", order, err)
	}
	if wait := time.Until(order.RetryAfter); wait <= 0 || wait > 7*time.Second {
		t.Errorf("the order is to be read again in %v", wait)
	}
	url := order.URL
	for range 2 {
		if order, err = c.Order(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	verifyChains(t, s, c, order)
}

func verifyChains(t *testing.T, s *acmetest.Server, c *acme.Client, order rfc8555.Order) {
	t.Helper()
	chain, alternates, err := c.Certificate(t.Context(), order.Certificate)
	if err != nil || len(alternates) != 1 {
		t.Fatalf("%v, %v", alternates, err)
	}
	other, more, err := c.Certificate(t.Context(), alternates[0])
	if err != nil || len(more) != 0 {
		t.Fatalf("%v, %v", more, err)
	}
	verify(t, s.Roots(), chain)
	verify(t, s.AlternateRoots(), other)
}

func verify(t *testing.T, rootsPEM []byte, chain [][]byte) {
	t.Helper()
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(rootsPEM)
	var certs []*x509.Certificate
	for _, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, cert)
		between.AddCert(cert)
	}
	if _, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "a.example.com"}); err != nil {
		t.Error(err)
	}
}

// A validation that fails shows its problem, with what belongs to each name.
func TestInvalid(t *testing.T) {
	want := &rfc8555.Problem{
		Type: rfc8555.Namespace + "dns", Detail: "no such name", Status: 400,
		Subproblems: []rfc8555.Subproblem{{Type: rfc8555.Namespace + "caa", Detail: "forbidden", Identifier: rfc8555.Identifier{Type: "dns", Value: "b.example.com"}}},
	}
	s := acmetest.Start(t, acmetest.Options{Validate: func(acmetest.Validation) acmetest.Verdict { return acmetest.Verdict{Problem: want} }})
	c := newClient(t, newPool(t, nil), s)
	order, err := c.NewOrder(t.Context(), names("b.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	authorization, err := c.Authorization(t.Context(), order.Authorizations[0])
	if err != nil {
		t.Fatal(err)
	}
	challenge, err := c.Accept(t.Context(), authorization.Challenges[1].URL)
	if err != nil || challenge.Status != rfc8555.StateInvalid {
		t.Fatalf("%+v, %v", challenge, err)
	}
	if diff := cmp.Diff(want, challenge.Error); diff != "" {
		t.Error(diff)
	}
	if order, err = c.Order(t.Context(), order.URL); err != nil || order.Status != rfc8555.StateInvalid || order.Error == nil {
		t.Errorf("%+v, %v", order, err)
	}
}
