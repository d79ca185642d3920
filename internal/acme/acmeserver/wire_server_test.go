package acmeserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
)

// TestMessages sends messages that are wrong in one thing each. Each is answered with
// a nonce that the next one uses.
func TestMessages(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.serve("", func(cfg *acmeserver.Config) { cfg.Metrics = registry })
	c := w.registered(1)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	newOrder := c.url("new-order")
	used := c.newNonce()
	for _, tc := range []struct {
		name    string
		edit    func(*sent)
		code    int
		problem string
	}{
		{"GET", func(s *sent) { s.method = http.MethodGet }, 405, "malformed"},
		{"PUT", func(s *sent) { s.method = http.MethodPut }, 405, "malformed"},
		{"no such path", func(s *sent) { s.target = c.url("new-orders") }, 404, "malformed"},
		{"slash at the end", func(s *sent) { s.target = newOrder + "/" }, 404, "malformed"},
		{"two slashes", func(s *sent) { s.target = c.external + "/acme/" + c.endpoint + "//new-order" }, 404, "malformed"},
		{"dots", func(s *sent) { s.target = c.external + "/acme/" + c.endpoint + "/x/../new-order" }, 404, "malformed"},
		{"an encoded letter", func(s *sent) { s.target = c.url("%6eew-order") }, 404, "malformed"},
		{"another endpoint", func(s *sent) { s.target = strings.Replace(newOrder, c.endpoint, "nosuch", 1) }, 404, "malformed"},
		{"media type", func(s *sent) { s.http.Set("Content-Type", "application/json") }, 415, "malformed"},
		{"no media type", func(s *sent) { s.http.Del("Content-Type") }, 415, "malformed"},
		{"encoding", func(s *sent) { s.http.Set("Content-Encoding", "gzip") }, 415, "malformed"},
		{"too large", func(s *sent) { s.body = strings.Repeat("x", 64<<10+1) }, 413, "malformed"},
		{"no JSON", func(s *sent) { s.body = "x" }, 400, "malformed"},
		{"an array", func(s *sent) { s.body = "[]" }, 400, "malformed"},
		{"no algorithm", func(s *sent) { s.header["alg"] = "none" }, 400, "badSignatureAlgorithm"},
		{"HMAC", func(s *sent) { s.header["alg"] = "HS256" }, 400, "badSignatureAlgorithm"},
		{"the algorithm of another curve", func(s *sent) { s.header["alg"] = "ES384" }, 400, "badSignatureAlgorithm"},
		{"crit", func(s *sent) { s.header["crit"] = []string{"b64"} }, 400, "malformed"},
		{"jwk and kid", func(s *sent) { s.header["jwk"] = jwk(&c.key.PublicKey) }, 400, "malformed"},
		{"jwk", func(s *sent) { delete(s.header, "kid"); s.header["jwk"] = jwk(&c.key.PublicKey) }, 400, "malformed"},
		{"kid of another server", func(s *sent) { s.header["kid"] = "https://x/acme/acct/1" }, 400, "malformed"},
		{"unknown kid", func(s *sent) { s.header["kid"] = c.url("acct/" + strings.Repeat("a", 26)) }, 400, "accountDoesNotExist"},
		{"kid that is no name", func(s *sent) { s.header["kid"] = c.url("acct/..") }, 400, "accountDoesNotExist"},
		{"another key", func(s *sent) { s.key = other }, 400, "malformed"},
		{"short signature", func(s *sent) { s.signature = b64(make([]byte, 63)) }, 400, "malformed"},
		{"padding", func(s *sent) { s.signature = b64(make([]byte, 64)) + "==" }, 400, "malformed"},
		{"url of another host", func(s *sent) { s.header["url"] = "https://x" + strings.TrimPrefix(newOrder, c.external) }, 403, "unauthorized"},
		{"url in upper case", func(s *sent) { s.header["url"] = strings.ToUpper(newOrder) }, 403, "unauthorized"},
		{"url with a slash", func(s *sent) { s.header["url"] = newOrder + "/" }, 403, "unauthorized"},
		{"url without the query", func(s *sent) { s.target = newOrder + "?x=1" }, 403, "unauthorized"},
		{"url without the question mark", func(s *sent) { s.target = newOrder + "?" }, 403, "unauthorized"},
		{"no url", func(s *sent) { delete(s.header, "url") }, 400, "malformed"},
		{"no nonce", func(s *sent) { delete(s.header, "nonce") }, 400, "badNonce"},
		{"nonce with other characters", func(s *sent) { s.header["nonce"] = "a+b/" }, 400, "malformed"},
		{"nonce of nobody", func(s *sent) { s.header["nonce"] = "bm9ib2R5" }, 400, "badNonce"},
		{"first use", func(s *sent) { s.header["nonce"] = used; s.payload = "" }, 400, "malformed"},
		{"second use", func(s *sent) { s.header["nonce"] = used }, 400, "badNonce"},
		{"no payload", func(s *sent) { s.payload = "" }, 400, "malformed"},
		{"payload of another kind", func(s *sent) { s.payload = "[]" }, 400, "malformed"},
		{"a member twice", func(s *sent) { s.payload = `{"identifiers":[],"identifiers":[]}` }, 400, "malformed"},
		{"deep payload", func(s *sent) { s.payload = strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20) }, 400, "malformed"},
		{"no identifiers", func(s *sent) { s.payload = "{}" }, 400, "malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.post(newOrder, map[string]any{"identifiers": identifiers("a.corp.example")}, tc.edit)
			expect(t, tc.name, r, tc.code, tc.problem)
			if got := r.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("the media type is %q", got)
			}
			if got := r.json(t)["status"]; got != float64(tc.code) {
				t.Errorf("the status in the problem is %v", got)
			}
			if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("headers are missing: %v", r.header)
			}
			if tc.code == 405 && r.header.Get("Allow") != "POST, OPTIONS" {
				t.Errorf("Allow is %q", r.header.Get("Allow"))
			}
			isPost := tc.name != "GET" && tc.name != "PUT"
			if got := r.header.Get("Replay-Nonce"); (got != "") != isPost {
				t.Errorf("the nonce is %q", got)
			}
			if r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("Cache-Control is %q", r.header.Get("Cache-Control"))
			}
			if tc.problem == "badSignatureAlgorithm" && r.json(t)["algorithms"] == nil {
				t.Errorf("no algorithms are named: %s", r.body)
			}
		})
	}
	if r := c.post(newOrder, map[string]any{"identifiers": identifiers("a.corp.example")}); r.code != 201 {
		t.Errorf("after all of them: %d %s", r.code, r.body)
	}
	if n := len(w.orders()); n != 1 {
		t.Errorf("%d orders are stored", n)
	}
	want := `certplane_acme_requests_total{code="400",endpoint="` + c.endpoint + `",problem="badNonce",resource="new-order"} 3`
	if got := exported(t, registry); !strings.Contains(got, want) || strings.Contains(got, "nosuch") {
		t.Errorf("the metrics have no %s, or the name of a stranger:\n%s", want, got)
	}
}

// orders returns the stored orders of the namespace.
func (w *world) orders() []v1alpha1.AcmeOrder {
	w.t.Helper()
	list := &v1alpha1.AcmeOrderList{}
	if err := w.api.List(w.t.Context(), list, inNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func TestDirectoryAndNonces(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Website = "https://corp.example" })
	c := w.client()
	r := c.send(http.MethodGet, c.url("directory"), "", nil)
	d := r.json(t)
	for member, path := range map[string]string{
		"newNonce": "new-nonce", "newAccount": "new-account", "newOrder": "new-order", "revokeCert": "revoke-cert", "keyChange": "key-change", "renewalInfo": "renewal-info",
	} {
		if d[member] != c.url(path) {
			t.Errorf("%s is %v", member, d[member])
		}
	}
	meta := d["meta"].(map[string]any)
	if meta["website"] != "https://corp.example" || meta["profiles"].(map[string]any)["server"] != "30 days" || meta["externalAccountRequired"] != nil || meta["termsOfService"] != nil {
		t.Errorf("meta is %v", meta)
	}
	if r.code != 200 || r.header.Get("Replay-Nonce") != "" || r.header.Get("Link") != "" || r.header.Get("Cache-Control") != "public, max-age=0, no-cache" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("the directory: %d %v", r.code, r.header)
	}
	for method, code := range map[string]int{http.MethodHead: 200, http.MethodGet: 204} {
		r := c.send(method, c.url("new-nonce"), "", nil)
		if r.code != code || r.header.Get("Replay-Nonce") == "" || r.header.Get("Cache-Control") != "no-store" || !slices.Equal(r.links("index"), []string{c.url("directory")}) || r.body != "" {
			t.Errorf("%s new-nonce: %d %v", method, r.code, r.header)
		}
	}
	if r := c.send(http.MethodPost, c.url("directory"), "{}", nil); r.code != 405 || r.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST directory: %d %v", r.code, r.header)
	}
	r = c.send(http.MethodOptions, c.url("new-order"), "", nil)
	if r.code != 204 || r.header.Get("Access-Control-Allow-Headers") != "Content-Type" || r.header.Get("Access-Control-Allow-Methods") != "POST, OPTIONS" || r.header.Get("Access-Control-Max-Age") != "86400" {
		t.Errorf("OPTIONS: %d %v", r.code, r.header)
	}
	expect(t, "no endpoint", c.send(http.MethodGet, strings.Replace(c.url("directory"), c.endpoint, "nosuch", 1), "", nil), 404, "malformed")
	expect(t, "no roots", c.send(http.MethodGet, c.url("roots.pem"), "", nil), 404, "malformed")
}
