// Package oidctest runs OpenID Connect issuers for tests.
package oidctest

import (
	"crypto"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/certplane/certplane/internal/pki"
)

// Issuer is an OpenID Connect issuer. Its name is its URL.
type Issuer struct {
	*httptest.Server
	// Key signs the issuer's tokens.
	Key crypto.Signer

	blocked atomic.Bool
}

// Block makes the issuer return only errors until Unblock is called.
func (i *Issuer) Block() { i.blocked.Store(true) }

// Unblock ends Block.
func (i *Issuer) Unblock() { i.blocked.Store(false) }

// Start runs an issuer until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	key, err := pki.GenerateKey(pki.RSA2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{Key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if i.blocked.Load() {
			http.Error(w, "blocked by the test", http.StatusServiceUnavailable)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"},
		}})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

// CA returns the bundle for verifying the issuer's certificate.
func (i *Issuer) CA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

// Token returns a token for the audience "certplane" and an hour, with
// additional claims.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.Key, KeyID: "k"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"iss": i.URL, "aud": "certplane", "exp": time.Now().Add(time.Hour).Unix(), "sub": "ann"}
	for name, value := range claims {
		all[name] = value
	}
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Config returns an AuthenticationConfiguration that accepts the issuer's
// tokens: sub, after prefix, is the user.
func (i *Issuer) Config(t testing.TB, prefix string) string {
	t.Helper()
	quote := func(s string) string {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration","jwt":[{` +
		`"issuer":{"url":` + quote(i.URL) + `,"certificateAuthority":` + quote(i.CA()) + `,"audiences":["certplane"]},` +
		`"claimMappings":{"username":{"claim":"sub","prefix":` + quote(prefix) + `},"groups":{"claim":"groups","prefix":"oidc:"}}}]}`
}
