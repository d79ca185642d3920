package jws_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	josejson "github.com/go-jose/go-jose/v4/json"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/apitest/jwstest"
)

// fuzzKey signs the seeds: the same signature in each process, and nearly at once.
var fuzzKey = testKey{jwstest.Key{Signer: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), Alg: "EdDSA"}}

// FuzzParse: what is accepted is accepted by go-jose too, and is not verified by
// any key but the right one.
func FuzzParse(f *testing.F) {
	for _, key := range []testKey{fuzzKey, newECKey(f)} {
		f.Add([]byte(key.Message(key.header(), "{}").Body()))
		f.Add([]byte(key.Message(key.header("kid:", "jwk:$JWK"), "").Body()))
	}
	f.Add([]byte(`{"protected":"","payload":"","signature":""}`))
	account := newECKey(f).key()
	f.Fuzz(func(t *testing.T, body []byte) {
		u, problem := jws.Parse(body, jws.Anybody, everything)
		if problem != nil {
			checkAnswer(t, "parsing", problem)
			return
		}
		if (u.Key == nil) == (u.KID == "") {
			t.Errorf("neither or both of key and kid: %q", body)
		}
		algorithms := []jose.SignatureAlgorithm{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		theirs, err := jose.ParseSignedJSON(string(body), algorithms)
		m, problem := u.Verify(account)
		switch {
		case problem != nil:
			checkAnswer(t, "verifying", problem)
		case u.Key == nil:
			t.Errorf("a key that has signed nothing verifies: %q", body)
		case err != nil:
			t.Errorf("go-jose: %v: %q", err, body)
		default:
			if payload, err := theirs.Verify(m.Key.Public()); err != nil || !bytes.Equal(payload, m.Payload) {
				t.Errorf("go-jose: %v, %q: %q", err, payload, body)
			}
		}
	})
}

// FuzzHeader signs any header and payload: what we accept go-jose accepts, and reads
// in the same way.
func FuzzHeader(f *testing.F) {
	key := fuzzKey
	for _, header := range []string{key.header(), key.header("kid:", "jwk:$JWK"), key.header(`Kid:1`, `a:{"b":[1]}`), key.header("crit:[]"), key.header(`alg:"none"`), "{}", ""} {
		f.Add(header, "{}")
	}
	f.Fuzz(func(t *testing.T, header, payload string) {
		body := key.Message(header, payload).Body()
		if len(body) > jws.MaxSize {
			return
		}
		if m, problem := read(body, key.key(), jws.Options{}); problem == nil {
			agree(t, header, key, body, payload)
			_ = m.Decode(new(map[string]any))
		}
	})
}

// FuzzParseKey: a key that is accepted is written, and read again as the same one.
func FuzzParseKey(f *testing.F) {
	for _, key := range []testKey{fuzzKey, newECKey(f)} {
		f.Add([]byte(key.JWK()))
	}
	f.Add([]byte(`{"kty":"RSA","e":"AQAB","n":"` + jwstest.Base64(string(multiple(1, 2048).Bytes())) + `","use":"sig","key_ops":["verify"],"alg":"RS256"}`))
	f.Add([]byte(`{"kty":"OKP","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := jws.StoredKey(data); err != nil {
			if _, problem := jws.ParseKey(data, jws.Options{CertificateKey: true}); problem == nil {
				t.Errorf("a key of a client cannot be stored: %v", err)
			}
			return
		}
		key, problem := jws.ParseKey(data, jws.Options{LargeRSA: true})
		if problem != nil {
			if problem.Word() != "badPublicKey" {
				t.Errorf("%v", problem)
			}
			return
		}
		again, err := jws.StoredKey(key.JWK())
		if err != nil || !again.Equal(key) || !bytes.Equal(again.JWK(), key.JWK()) {
			t.Errorf("%s became %s, %v", data, key.JWK(), err)
		}
		theirs := jose.JSONWebKey{}
		if err := theirs.UnmarshalJSON(key.JWK()); err == nil {
			if sum, err := theirs.Thumbprint(crypto.SHA256); err != nil || base64.RawURLEncoding.EncodeToString(sum) != key.ThumbprintText() {
				t.Errorf("%s: %s, %v", data, key.ThumbprintText(), err)
			}
		}
	})
}

// FuzzBinding: nobody without the MAC key makes a binding.
func FuzzBinding(f *testing.F) {
	key := fuzzKey
	account := key.key()
	f.Add(binding(`{"alg":"HS256","kid":"a.b","url":"`+newAccountURL+`"}`, key.JWK(), crypto.SHA256, []byte("another key")))
	f.Add(binding(`{"alg":"HS512","kid":"","url":"`+newAccountURL+`"}`, "{}", crypto.SHA512, nil))
	f.Fuzz(func(t *testing.T, data string) {
		b, problem := jws.ParseBinding([]byte(data))
		if problem != nil {
			checkAnswer(t, "parsing", problem)
			return
		}
		for _, mac := range [][]byte{nil, macKey} {
			if problem := b.Verify(mac, newAccountURL, account); problem == nil {
				t.Errorf("a forged binding: %q", data)
			} else {
				checkAnswer(t, "verifying", problem)
			}
		}
	})
}

// FuzzDecodePayload: what is accepted is a JSON object whose members occur once, also
// for go-jose, and stays accepted when it is written again.
func FuzzDecodePayload(f *testing.F) {
	for _, seed := range []string{`{}`, `{"csr":"a","x":[{"y":1},{"y":2}]}`, `{"csr":1}`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, `[]`, "{\"a\":\"\\ud800\"}", "", `{"a\"":"\\","\u0061":[",",{"a":"{"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var ours, theirs map[string]any
		problem, err := jws.DecodePayload(payload, &ours), josejson.Unmarshal(payload, &theirs)
		switch {
		case problem != nil:
			checkAnswer(t, "decoding", problem)
			if err == nil && theirs != nil && utf8.Valid(payload) && !strings.Contains(problem.Detail, "deeper") {
				t.Errorf("%q: %v, go-jose accepts it", payload, problem)
			}
			return
		case err != nil:
			t.Errorf("%q: go-jose: %v", payload, err)
		case len(ours) != len(theirs):
			t.Errorf("%q has %d members, for go-jose %d", payload, len(ours), len(theirs))
		}
		again, err := json.Marshal(ours)
		if err != nil {
			t.Fatal(err)
		}
		if problem := jws.DecodePayload(again, new(map[string]any)); problem != nil {
			t.Errorf("%q, written again as %q: %v", payload, again, problem)
		}
	})
}
