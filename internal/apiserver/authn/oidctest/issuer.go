// Package oidctest runs OpenID Connect issuers for tests.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
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

	// Change, if not nil, changes the claims of tokens that users log in with.
	Change func(claims map[string]any)

	blocked atomic.Bool
	mu      sync.Mutex
	codes   map[string]url.Values // the requests of users by the codes that they have
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
	i := &Issuer{Key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if i.blocked.Load() {
			http.Error(w, "blocked by the test", http.StatusServiceUnavailable)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"},
		}})
	})
	mux.HandleFunc("/authorize", i.authorize)
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { i.redeem(t, w, r) })
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

// authorize logs the user ann in at once.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	query, code := r.URL.Query(), rand.Text()
	i.mu.Lock()
	i.codes[code] = query
	i.mu.Unlock()
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {query.Get("state")}}.Encode(), http.StatusSeeOther)
}

// redeem exchanges a code, once, for a token if the client sends the verifier (RFC 7636).
func (i *Issuer) redeem(t testing.TB, w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	wanted, ok := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	i.mu.Unlock()
	verifier := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	client, secret, _ := r.BasicAuth()
	if !ok || wanted.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(verifier[:]) || wanted.Get("code_challenge_method") != "S256" ||
		wanted.Get("redirect_uri") != r.FormValue("redirect_uri") || client != wanted.Get("client_id") || secret != Secret {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	claims := map[string]any{"nonce": wanted.Get("nonce"), "aud": client}
	if i.Change != nil {
		i.Change(claims)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "none", "token_type": "Bearer", "id_token": i.Token(t, claims)})
}

// Secret is the secret of all clients.
const Secret = "a-secret-of-tests"

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
