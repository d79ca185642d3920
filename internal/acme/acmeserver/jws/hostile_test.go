package jws_test

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/apitest/jwstest"
)

// refused checks that a message is refused with a type of problems.
func refused(t *testing.T, reason, body string, account *jws.Key, options jws.Options, want string) {
	t.Helper()
	_, problem := read(body, account, options)
	if got := kind(problem); got != want || want == "" {
		t.Errorf("%s: %q, want %q: %.300s", reason, got, want, body)
		return
	}
	checkAnswer(t, reason, problem)
}

// Forms of the body. $P, $L and $S are good parts.
func TestHostileBodies(t *testing.T) {
	m := keys()["ES256"].Message(keys()["ES256"].header(), `{"a":1}`)
	account := keys()["ES256"].key()
	if got := outcome(m.In(jwstest.GoodBody), account, jws.Options{}); got != "" {
		t.Fatal(got)
	}
	for reason, body := range jwstest.Bodies {
		refused(t, reason, m.In(body), account, jws.Options{}, "malformed")
	}
	another := `{"protected":"` + jwstest.Base64(keys()["ES256"].header(`a:1`)) + `","payload":"$L","signature":"$S"}`
	refused(t, "another protected", m.In(another), account, jws.Options{}, "malformed")
	for reason, body := range map[string]string{
		"an escaped name":           `{"prot\u0065cted":"$P","payload":"$L","signature":"$S"}`,
		"spaces":                    " \r\n" + jwstest.GoodBody + "\t",
		"other members":             `{"Protected":1,"PAYLOAD":null,"protected":"$P","payload":"$L","signature":"$S","resource":{"a":[{"b":1},{"b":1}]}}`,
		"16 levels":                 `{"protected":"$P","payload":"$L","signature":"$S","a":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `}`,
		"16 levels of arrays twice": `{"protected":"$P","payload":"$L","signature":"$S","a":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `,"b":[[]]}`,
	} {
		if got := outcome(m.In(body), account, jws.Options{}); got != "" {
			t.Errorf("%s: %s", reason, got)
		}
	}
	large := m.In(jwstest.GoodBody) + strings.Repeat(" ", jws.MaxSize)
	if _, problem := jws.Parse([]byte(large), jws.Anybody, jws.Options{}); kind(problem) != "malformed" || problem.Status != 413 {
		t.Errorf("a large message: %v", problem)
	}
}

// Protected headers, each signed with the key that it names.
func TestHostileHeaders(t *testing.T) {
	key := keys()["ES256"]
	for reason, header := range jwstest.Headers(key.Key, request) {
		refused(t, reason, key.Message(header, "{}").Body(), key.key(), jws.Options{}, "malformed")
	}
}

// Algorithms that are not accepted, or do not fit the key.
func TestHostileAlgorithms(t *testing.T) {
	for _, alg := range jwstest.Algorithms {
		key := keys()["ES256"]
		for _, from := range []string{key.header(`alg:"` + alg + `"`), key.header(`alg:"`+alg+`"`, "kid:", "jwk:$JWK")} {
			refused(t, alg, key.Message(from, "{}").Body(), key.key(), jws.Options{}, "badSignatureAlgorithm")
			m := key.Message(from, "{}")
			m.Signature = ""
			refused(t, alg+" without a signature", m.Body(), key.key(), jws.Options{}, "badSignatureAlgorithm")
		}
	}
	for _, alg := range []string{"RS384", "RS512", "PS256", "PS384", "PS512"} {
		key := keys()[alg]
		refused(t, alg+" of its own key, not permitted", key.Message(key.header(), "{}").Body(), key.key(), jws.Options{LargeRSA: true}, "badSignatureAlgorithm")
	}
	// The classic: a MAC whose key is the public key, in each of its spellings.
	rsaKey := keys()["RS256"]
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{der, []byte(rsaKey.JWK()), []byte(base64.StdEncoding.EncodeToString(der))} {
		m := jwstest.Message{Protected: jwstest.Base64(rsaKey.header(`alg:"HS256"`)), Payload: jwstest.Base64("{}")}
		m.Signature = jwstest.Base64(jwstest.HMAC(crypto.SHA256, secret, m.Protected+"."+m.Payload))
		refused(t, "a MAC", m.Body(), rsaKey.key(), everything, "badSignatureAlgorithm")
	}
	for alg := range keys() {
		for other, key := range keys() {
			same := alg == other || strings.Trim(alg, "PR2358461") == "S" && strings.Trim(other, "PR2358461") == "S"
			if same {
				continue
			}
			for _, from := range []string{key.header(`alg:"` + alg + `"`), key.header(`alg:"`+alg+`"`, "kid:", "jwk:$JWK")} {
				refused(t, fmt.Sprintf("%s by a key of %s", alg, other), key.Message(from, "{}").Body(), key.key(), everything, "badSignatureAlgorithm")
			}
		}
	}
}

// Signatures that are not those of the message and the key.
func TestHostileSignatures(t *testing.T) {
	for alg, key := range keys() {
		m := key.Message(key.header(), `{"a":1}`)
		good := m.Signature
		forms := jwstest.Signatures(key.Key, request, `{"a":1}`)
		for reason, signature := range forms {
			m.Signature = jwstest.Base64(string(signature))
			refused(t, alg+": "+reason, m.Body(), key.key(), everything, "malformed")
		}
		m.Signature = good
		if got := outcome(m.Body(), key.key(), everything); got != "" {
			t.Errorf("%s: the good one: %s", alg, got)
		}
	}
	one, other := keys()["ES256"], newECKey(t)
	refused(t, "of another key", other.Message(other.header(), "{}").Body(), one.key(), jws.Options{}, "malformed")
	refused(t, "of another key than that in it", other.Message(one.header("kid:", "jwk:$JWK"), "{}").Body(), nil, jws.Options{}, "malformed")
}
