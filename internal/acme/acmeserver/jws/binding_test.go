package jws_test

import (
	"bytes"
	"crypto"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest/jwstest"
)

const newAccountURL = "https://ca.example/acme/corp/new-account"

var macKey = []byte("0123456789abcdef0123456789abcdef")

// binding returns an external account binding with a MAC over what it has.
func binding(protected, payload string, hash crypto.Hash, key []byte) string {
	m := jwstest.Message{Protected: jwstest.Base64(protected), Payload: jwstest.Base64(payload)}
	m.Signature = jwstest.Base64(jwstest.HMAC(hash, key, m.Protected+"."+m.Payload))
	return m.Body()
}

func TestBinding(t *testing.T) {
	key, other := keys()["ES256"], keys()["EdDSA"]
	header := func(alg string) string {
		return `{"alg":"` + alg + `","kid":"shop.fleet","url":"` + newAccountURL + `"}`
	}
	good := header("HS256")
	longKey := bytes.Repeat([]byte("k"), 200)
	for _, tc := range []struct {
		reason string
		data   string
		mac    []byte
		want   string
	}{
		{"HS256", binding(good, key.JWK(), crypto.SHA256, macKey), macKey, ""},
		{"HS384", binding(header("HS384"), key.JWK(), crypto.SHA384, macKey), macKey, ""},
		{"HS512", binding(header("HS512"), key.JWK(), crypto.SHA512, macKey), macKey, ""},
		{"a long key", binding(good, key.JWK(), crypto.SHA256, longKey), longKey, ""},
		{"another spelling of the key", binding(good, changed(t, key.JWK(), `kid:"a"`, `use:"sig"`), crypto.SHA256, macKey), macKey, ""},

		{"a key that is not known", binding(good, key.JWK(), crypto.SHA256, macKey), nil, "unauthorized"},
		{"the key that takes its place", binding(good, key.JWK(), crypto.SHA256, make([]byte, 32)), nil, "unauthorized"},
		{"an empty key", binding(good, key.JWK(), crypto.SHA256, nil), nil, "unauthorized"},
		{"an empty key that is known", binding(good, key.JWK(), crypto.SHA256, nil), []byte{}, "unauthorized"},
		{"another MAC key", binding(good, key.JWK(), crypto.SHA256, longKey), macKey, "unauthorized"},
		{"another hash", binding(header("HS512"), key.JWK(), crypto.SHA256, macKey), macKey, "unauthorized"},
		{"no MAC", strings.Replace(binding(good, key.JWK(), crypto.SHA256, macKey), `"signature":"`, `"signature":"","x":"`, 1), macKey, "unauthorized"},
		{"a short MAC", binding(good, key.JWK(), crypto.SHA256, macKey)[:len(binding(good, key.JWK(), crypto.SHA256, macKey))-5] + `"}`, macKey, "unauthorized"},

		{"nothing", "", macKey, "malformed"},
		{"null", "null", macKey, "malformed"},
		{"a text", `"a"`, macKey, "malformed"},
		{"an empty object", "{}", macKey, "malformed"},
		{"an unprotected header", strings.Replace(binding(good, key.JWK(), crypto.SHA256, macKey), "{", `{"header":{},`, 1), macKey, "malformed"},
		{"the general form", strings.Replace(binding(good, key.JWK(), crypto.SHA256, macKey), "{", `{"signatures":[],`, 1), macKey, "malformed"},
		{"a member twice", strings.Replace(binding(good, key.JWK(), crypto.SHA256, macKey), "{", `{"payload":"",`, 1), macKey, "malformed"},
		{"a nonce", binding(strings.Replace(good, "{", `{"nonce":"AAAA",`, 1), key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"a jwk", binding(strings.Replace(good, "{", `{"jwk":`+key.JWK()+`,`, 1), key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"another member", binding(strings.Replace(good, "{", `{"typ":"JWT",`, 1), key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"crit", binding(strings.Replace(good, "{", `{"crit":[],`, 1), key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"kid twice", binding(strings.Replace(good, "{", `{"kid":"shop.fleet",`, 1), key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"no kid", binding(`{"alg":"HS256","url":"`+newAccountURL+`"}`, key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"kid a number", binding(`{"alg":"HS256","kid":1,"url":"`+newAccountURL+`"}`, key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"no url", binding(`{"alg":"HS256","kid":"shop.fleet"}`, key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"another url", binding(strings.Replace(good, "corp", "other", 1), key.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"another key", binding(good, other.JWK(), crypto.SHA256, macKey), macKey, "malformed"},
		{"no key", binding(good, "", crypto.SHA256, macKey), macKey, "malformed"},
		{"a private key", binding(good, changed(t, key.JWK(), `d:"AAAA"`), crypto.SHA256, macKey), macKey, "malformed"},
		{"a member of the key twice", binding(good, strings.Replace(key.JWK(), "{", `{"kty":"EC",`, 1), crypto.SHA256, macKey), macKey, "malformed"},
		{"alg none", binding(header("none"), key.JWK(), crypto.SHA256, macKey), macKey, "badSignatureAlgorithm"},
		{"alg ES256", binding(header("ES256"), key.JWK(), crypto.SHA256, macKey), macKey, "badSignatureAlgorithm"},
		{"alg HS1", binding(header("HS1"), key.JWK(), crypto.SHA256, macKey), macKey, "badSignatureAlgorithm"},
	} {
		problem := bind(tc.data, tc.mac, key.key())
		if got := kind(problem); got != tc.want {
			t.Errorf("%s: %v, want %q", tc.reason, problem, tc.want)
		} else if problem != nil {
			checkAnswer(t, tc.reason, problem)
		}
	}
}

func bind(data string, mac []byte, key *jws.Key) *rfc8555.Problem {
	b, problem := jws.ParseBinding([]byte(data))
	if problem != nil {
		return problem
	}
	return b.Verify(mac, newAccountURL, key)
}

// Nobody can find out which keys there are.
func TestBindingAnswersAlike(t *testing.T) {
	key := keys()["ES256"]
	data := binding(`{"alg":"HS256","kid":"shop.fleet","url":"`+newAccountURL+`"}`, key.JWK(), crypto.SHA256, []byte("a wrong key"))
	unknown, wrong := bind(data, nil, key.key()), bind(data, macKey, key.key())
	if !bytes.Equal(unknown.Encode(), wrong.Encode()) || !bytes.Equal(wrong.Encode(), jws.BindingRefused().Encode()) || wrong.Status != 403 {
		t.Errorf("%v, %v", unknown, wrong)
	}
	if b, problem := jws.ParseBinding([]byte(data)); problem != nil || b.KID != "shop.fleet" {
		t.Errorf("%+v, %v", b, problem)
	}
}

const keyChangeURL = "https://ca.example/acme/corp/key-change"

func TestKeyChange(t *testing.T) {
	old, next, third := keys()["ES256"], keys()["EdDSA"], keys()["RS256"]
	payload := `{"account":"` + accountURL + `","oldKey":` + old.JWK() + `}`
	url := `url:"` + keyChangeURL + `"`
	asNew := func(key testKey, changes ...string) string {
		return key.header(append([]string{"kid:", "nonce:", url, "jwk:$JWK"}, changes...)...)
	}
	inner := func(protected, payload string) string { return next.Message(protected, payload).Body() }
	for _, tc := range []struct{ reason, inner, want string }{
		{"a new key", inner(asNew(next), payload), ""},
		{"with a nonce", inner(asNew(next, `nonce:"AAAA"`), payload), ""},
		{"other members", inner(asNew(next), strings.Replace(payload, "{", `{"resource":"key-change","newKey":{},"Account":1,`, 1)), ""},
		{"the old key in another spelling", inner(asNew(next), strings.Replace(payload, `"kty"`, `"kid":"1","kty"`, 1)), ""},

		{"nothing", "", "malformed"},
		{"an empty object", "{}", "malformed"},
		{"kid instead of jwk", inner(next.header(url), payload), "malformed"},
		{"kid beside jwk", inner(asNew(next, `kid:"`+accountURL+`"`), payload), "malformed"},
		{"the outer message again", old.Message(old.header(url), "{}").Body(), "malformed"},
		{"signed by the old key", old.Message(asNew(next, `alg:"ES256"`), payload).Body(), "badSignatureAlgorithm"},
		{"signed by the old key, which names itself", old.Message(asNew(old), payload).Body(), "malformed"},
		{"a signature of another key", next.Message(asNew(third, `alg:"EdDSA"`), payload).Body(), "badSignatureAlgorithm"},
		{"not signed", strings.Replace(inner(asNew(next), payload), `"signature":"`, `"signature":"","x":"`, 1), "malformed"},
		{"alg none", inner(asNew(next, `alg:"none"`), payload), "badSignatureAlgorithm"},
		{"a weak key", inner(asNew(next, `jwk:{"kty":"RSA","n":"`+jwstest.Base64("\xffabc")+`","e":"AQAB"}`), payload), "badPublicKey"},
		{"no url", inner(asNew(next, "url:"), payload), "malformed"},
		{"another url", inner(asNew(next, `url:"`+requestURL+`"`), payload), "malformed"},
		{"no payload", inner(asNew(next), ""), "malformed"},
		{"an array", inner(asNew(next), "["+payload+"]"), "malformed"},
		{"a member twice", inner(asNew(next), strings.Replace(payload, "{", `{"account":"x",`, 1)), "malformed"},
		{"no account", inner(asNew(next), `{"oldKey":`+old.JWK()+`}`), "malformed"},
		{"account in upper case", inner(asNew(next), strings.Replace(payload, "account", "Account", 1)), "malformed"},
		{"another account", inner(asNew(next), strings.Replace(payload, "acct/1", "acct/2", 1)), "malformed"},
		{"account a number", inner(asNew(next), `{"account":1,"oldKey":`+old.JWK()+`}`), "malformed"},
		{"no old key", inner(asNew(next), `{"account":"`+accountURL+`"}`), "malformed"},
		{"old key null", inner(asNew(next), `{"account":"`+accountURL+`","oldKey":null}`), "malformed"},
		{"another old key", inner(asNew(next), strings.Replace(payload, old.JWK(), third.JWK(), 1)), "malformed"},
		{"the new key as the old one", inner(asNew(next), strings.Replace(payload, old.JWK(), next.JWK(), 1)), "malformed"},
		{"a message within a message within a message", old.Message(asNew(old), inner(asNew(next), payload)).Body(), "malformed"},
	} {
		outer, problem := read(old.Message(old.header(url), tc.inner).Body(), old.key(), jws.Options{})
		if problem != nil {
			t.Fatal(problem)
		}
		key, problem := jws.ReadKeyChange(outer, jws.Options{})
		if got := kind(problem); got != tc.want || (key == nil) != (tc.want != "") {
			t.Errorf("%s: %v, want %q", tc.reason, problem, tc.want)
			continue
		}
		if problem != nil {
			checkAnswer(t, tc.reason, problem)
		} else if !key.Equal(next.key()) {
			t.Errorf("%s: another key", tc.reason)
		}
	}
}
