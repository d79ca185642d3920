package jws_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/apitest/jwstest"
)

var everything = jws.Options{MoreAlgorithms: true, LargeRSA: true}

// Messages of each type of keys are accepted, by go-jose too, and say the same.
func TestAccepted(t *testing.T) {
	for alg, key := range keys() {
		for reason, header := range map[string]string{
			"kid":           key.header(),
			"jwk":           key.header("kid:", "jwk:$JWK"),
			"other members": key.header(`typ:"x"`, `Kid:1`, `ALG:"none"`, `x5t:"a"`, `a:[{"b":1},{"b":[2]}]`),
			"spaces":        " {\t" + key.header()[1:] + "\r\n",
			"no nonce":      key.header("nonce:"),
			"kid in a jwk":  key.header("kid:", `jwk:`+key.JWK()[:len(key.JWK())-1]+`,"kid":"1","use":"sig","key_ops":["verify"],"alg":"`+alg+`"}`),
		} {
			for _, payload := range []string{"", `{"a":1}`, "\x00\xff"} {
				agree(t, reason, key, key.Message(header, payload).Body(), payload)
			}
		}
	}
}

// agree expects that go-jose and we accept a message, and read the same.
func agree(t *testing.T, reason string, key testKey, body, payload string) {
	t.Helper()
	m, problem := read(body, key.key(), everything)
	if problem != nil {
		t.Errorf("%s, %s: %v", key.Alg, reason, problem)
		return
	}
	theirs, err := jose.ParseSignedJSON(body, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(key.Alg)})
	if err != nil {
		t.Errorf("%s, %s: go-jose: %v", key.Alg, reason, err)
		return
	}
	verified, err := theirs.Verify(key.Public())
	h := theirs.Signatures[0].Protected
	if err != nil || string(verified) != payload || string(m.Payload) != payload || h.KeyID != m.KID || h.ExtraHeaders["url"] != m.URL {
		t.Errorf("%s, %s: go-jose: %v, %q, %+v; we: %+v", key.Alg, reason, err, verified, h, m)
	}
	if (h.JSONWebKey == nil) != (m.KID != "") || !m.Key.Equal(key.key()) {
		t.Errorf("%s, %s: the key is another one", key.Alg, reason)
	}
	if nonce, problem := m.Nonce(); problem == nil && nonce != h.Nonce { // go-jose takes any text for a nonce
		t.Errorf("%s, %s: the nonce %q, %q", key.Alg, reason, nonce, h.Nonce)
	}
}

func TestSigner(t *testing.T) {
	key := keys()["ES256"]
	for _, tc := range []struct {
		reason string
		header string
		signer jws.Signer
		want   string
	}{
		{"kid of anybody", key.header(), jws.Anybody, ""},
		{"jwk of anybody", key.header("kid:", "jwk:$JWK"), jws.Anybody, ""},
		{"kid of an account", key.header(), jws.OnAccount, ""},
		{"jwk instead of an account", key.header("kid:", "jwk:$JWK"), jws.OnAccount, "malformed"},
		{"a bad jwk instead of an account", key.header("kid:", "jwk:{}"), jws.OnAccount, "malformed"},
		{"jwk of a new key", key.header("kid:", "jwk:$JWK"), jws.NewKey, ""},
		{"kid instead of a new key", key.header(), jws.NewKey, "malformed"},
	} {
		u, problem := jws.Parse([]byte(key.Message(tc.header, "").Body()), tc.signer, jws.Options{})
		if got := kind(problem); got != tc.want || (u == nil) != (tc.want != "") {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// The message says which key was used: that of the message is not replaced by that of
// an account.
func TestOwnKeyVerifies(t *testing.T) {
	key, other := keys()["ES256"], keys()["EdDSA"]
	m, problem := read(key.Message(key.header("kid:", "jwk:$JWK"), "{}").Body(), other.key(), jws.Options{})
	if problem != nil || !m.Key.Equal(key.key()) {
		t.Errorf("%v", problem)
	}
}

func TestCheckURL(t *testing.T) {
	key := keys()["EdDSA"]
	for _, tc := range []struct{ reason, url, want string }{
		{"the same", requestURL, ""},
		{"the former", "https://old.example/acme/corp/new-order", ""},
		{"another host", "https://ca.example.net/acme/corp/new-order", "unauthorized"},
		{"a host in upper case", "https://CA.example/acme/corp/new-order", "unauthorized"},
		{"a final dot of the host", "https://ca.example./acme/corp/new-order", "unauthorized"},
		{"a port", "https://ca.example:443/acme/corp/new-order", "unauthorized"},
		{"http", "http://ca.example/acme/corp/new-order", "unauthorized"},
		{"another case of the path", "https://ca.example/acme/Corp/new-order", "unauthorized"},
		{"another path", "https://ca.example/acme/corp/new-account", "unauthorized"},
		{"a slash at the end", requestURL + "/", "unauthorized"},
		{"a query", requestURL + "?", "unauthorized"},
		{"a fragment", requestURL + "#", "unauthorized"},
		{"an escape", "https://ca.example/acme/corp/new%2Dorder", "unauthorized"},
		{"only the path", "/acme/corp/new-order", "unauthorized"},
		{"nothing", "", "unauthorized"},
	} {
		m, problem := read(key.Message(key.header(`url:"`+tc.url+`"`), "").Body(), key.key(), jws.Options{})
		if problem != nil {
			t.Fatal(problem)
		}
		problem = m.CheckURL(requestURL, "https://old.example/acme/corp/new-order")
		if got := kind(problem); got != tc.want || got != "" && problem.Status != 403 {
			t.Errorf("%s: %v, want %q", tc.reason, problem, tc.want)
		}
	}
}

func TestNonce(t *testing.T) {
	key := keys()["EdDSA"]
	for _, tc := range []struct{ reason, member, want string }{
		{"base64url", `nonce:"_-AA"`, ""},
		{"none", "nonce:", "badNonce"},
		{"empty", `nonce:""`, "malformed"},
		{"standard base64", `nonce:"/+AA"`, "malformed"},
		{"padding", `nonce:"AA=="`, "malformed"},
		{"a stray bit", `nonce:"AB"`, "malformed"},
		{"a line break", `nonce:"AA\n"`, "malformed"},
		{"a space", `nonce:"A A"`, "malformed"},
	} {
		m, problem := read(key.Message(key.header(tc.member), "").Body(), key.key(), jws.Options{})
		if problem != nil {
			t.Fatal(problem)
		}
		if _, problem = m.Nonce(); kind(problem) != tc.want {
			t.Errorf("%s: %v, want %q", tc.reason, problem, tc.want)
		}
	}
}

func TestDecode(t *testing.T) {
	key := keys()["EdDSA"]
	var into struct{ CSR string }
	for payload, want := range map[string]bool{"": true, `{"CSR":"a"}`: false, "[]": false} {
		m, problem := read(key.Message(key.header(), payload).Body(), key.key(), jws.Options{})
		if problem != nil {
			t.Fatal(problem)
		}
		if m.IsPostAsGet() != want || (m.Decode(&into) == nil) != (payload == `{"CSR":"a"}`) {
			t.Errorf("%q: %v, %v", payload, m.IsPostAsGet(), m.Decode(&into))
		}
	}
}

func TestShortECDSASignatures(t *testing.T) {
	short := jws.Options{ShortECDSASignatures: true}
	for _, alg := range []string{"ES256", "ES384", "ES512"} {
		key, size := keys()[alg], map[string]int{"ES256": 32, "ES384": 48, "ES512": 66}[alg]
		needed := map[[2]bool]bool{{true, false}: true, {false, true}: true}
		for len(needed) > 0 {
			m := key.Message(key.header(), "")
			signature := key.Sign(m.Protected + "." + m.Payload)
			zero := [2]bool{signature[0] == 0, signature[size] == 0}
			if !zero[0] && !zero[1] {
				continue
			}
			delete(needed, zero)
			cut := signature
			if zero[1] {
				cut = slices.Delete(slices.Clone(cut), size, size+1)
			}
			if zero[0] {
				cut = cut[1:]
			}
			m.Signature = jwstest.Base64(string(cut))
			if got := outcome(m.Body(), key.key(), short); got != "" {
				t.Errorf("%s: %s", alg, got)
			}
			if got := outcome(m.Body(), key.key(), jws.Options{}); got != "malformed" {
				t.Errorf("%s, not permitted: %q", alg, got)
			}
			m.Signature = jwstest.Base64(string(cut[1:]))
			if got := outcome(m.Body(), key.key(), short); got != "malformed" && cut[0] != 0 {
				t.Errorf("%s, without a byte that is not zero: %q", alg, got)
			}
		}
		m := key.Message(key.header(), "")
		if got := outcome(m.Body(), key.key(), short); got != "" {
			t.Errorf("%s, a whole one: %s", alg, got)
		}
		for length := range 2*size + 9 {
			m.Signature = jwstest.Base64(strings.Repeat("\x01", length))
			if got := outcome(m.Body(), key.key(), short); got != "malformed" {
				t.Errorf("%s, of %d bytes: %q", alg, length, got)
			}
		}
	}
}
