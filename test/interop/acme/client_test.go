package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// newClient returns a client of a server with a new key.
func newClient(t *testing.T, of *pebble) *acme.Client {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: "certplane-test"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := pool.Client(acme.Config{Directory: of.directory, Key: key, CABundle: of.bundle})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// certplane's client gets a certificate of a profile, and renewal information for it, from
// Pebble, although Pebble refuses half of all nonces.
func TestClient(t *testing.T) {
	t.Setenv("PEBBLE_VA_ALWAYS_VALID", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "50")
	server := startPebble(t, pebbleOptions{profiles: map[string]ca.Profile{"short": {Description: "Six days", ValidityPeriod: 518400}}, alternateRoots: 1})
	client, ctx := newClient(t, server), t.Context()
	account, err := client.Register(ctx, acme.Registration{Contact: []string{"mailto:admin@example.com"}})
	if err != nil || account.URL == "" {
		t.Fatalf("registering: %+v, %v", account, err)
	}
	if found, err := client.FindAccount(ctx); err != nil || found.URL != account.URL {
		t.Errorf("found %+v, %v; registered %s", found, err, account.URL)
	}
	order, err := client.NewOrder(ctx, rfc8555.OrderRequest{Identifiers: []rfc8555.Identifier{{Type: "dns", Value: "a.example.com"}}, Profile: "short"})
	if err != nil {
		t.Fatal(err)
	}
	authz, err := client.Authorization(ctx, order.Authorizations[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, challenge := range authz.Challenges {
		if challenge.Type == rfc8555.ChallengeHTTP01 {
			if _, err := client.Accept(ctx, challenge.URL); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the order is ready", func() bool {
		order, err = client.Order(ctx, order.URL)
		return err == nil && order.Status == rfc8555.StateReady
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{}, DNSNames: []string{"a.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Finalize(ctx, order.Finalize, order.URL, csr); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the order is valid", func() bool {
		order, err = client.Order(ctx, order.URL)
		return err == nil && order.Status == rfc8555.StateValid
	})
	chain, alternates, err := client.Certificate(ctx, order.Certificate)
	if err != nil || len(chain) < 2 || len(alternates) != 1 {
		t.Fatalf("a chain of %d, %d alternates, %v", len(chain), len(alternates), err)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	if lives := leaf.NotAfter.Sub(leaf.NotBefore).Round(time.Hour); lives != 144*time.Hour {
		t.Errorf("the certificate lives for %v", lives)
	}
	id := base64.RawURLEncoding.EncodeToString(leaf.AuthorityKeyId) + "." + base64.RawURLEncoding.EncodeToString(leaf.SerialNumber.Bytes())
	if info, err := client.RenewalInfo(ctx, id); err != nil || !info.End.After(info.Start) {
		t.Errorf("renewal information: %+v, %v", info, err)
	}
}

// What Pebble refuses has its type.
func TestRefused(t *testing.T) {
	const kid, key = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	server := startPebble(t, pebbleOptions{externalAccounts: map[string]string{kid: key}, blocked: []string{"google.com"}})
	client, ctx := newClient(t, server), t.Context()
	problem := new(rfc8555.Problem)
	if _, err := client.Register(ctx, acme.Registration{}); !errors.As(err, &problem) || !problem.HasType(rfc8555.ProblemExternalAccountRequired) {
		t.Errorf("without an external account: %v", err)
	}
	mac, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Register(ctx, acme.Registration{External: &acme.ExternalAccount{KeyID: kid, Key: mac}}); err != nil {
		t.Fatal(err)
	}
	order := rfc8555.OrderRequest{Identifiers: []rfc8555.Identifier{{Type: "dns", Value: "www.google.com"}}}
	if _, err := client.NewOrder(ctx, order); !errors.As(err, &problem) || !problem.HasType(rfc8555.ProblemRejectedIdentifier) {
		t.Errorf("a blocked name: %v", err)
	}
	order.Profile = "none"
	if _, err := client.NewOrder(ctx, order); !errors.As(err, new(*acme.ProfileError)) {
		t.Errorf("an unknown profile: %v", err)
	}
}
