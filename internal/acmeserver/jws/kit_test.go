package jws_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/certplane/certplane/internal/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// The URLs of the tests.
const (
	requestURL = "https://ca.example/acme/corp/new-order"
	accountURL = "https://ca.example/acme/corp/acct/1"
)

// testKey is a key of a client, with the algorithm that it signs with.
type testKey struct {
	crypto.Signer
	alg string
}

// keys has one key of each type. Keys take long to make.
var keys = sync.OnceValue(func() map[string]testKey {
	all := map[string]testKey{}
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		all[alg] = testKey{key, alg}
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	all["EdDSA"] = testKey{key, "EdDSA"}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		all[alg] = testKey{rsaKey, alg}
	}
	return all
})

// jwk returns the public key as JSON.
func (k testKey) jwk() string {
	data, err := jose.JSONWebKey{Key: k.Public()}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return string(data)
}

// key returns the public key as the server knows it.
func (k testKey) key() *jws.Key {
	key, problem := jws.KeyOf(k.Public(), jws.Options{})
	if problem != nil {
		panic(problem)
	}
	return key
}

// with returns the same key, to sign with another algorithm.
func (k testKey) with(alg string) testKey { return testKey{k.Signer, alg} }

// sign returns the signature of the key's algorithm (RFC 7518 section 3, RFC 8037).
func (k testKey) sign(input string) []byte {
	if k.alg == "EdDSA" {
		return ed25519.Sign(k.Signer.(ed25519.PrivateKey), []byte(input))
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[k.alg[2:]]
	h := hash.New()
	h.Write([]byte(input))
	digest := h.Sum(nil)
	switch key := k.Signer.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, digest)
		if err != nil {
			panic(err)
		}
		return halves(r, s, (key.Curve.Params().BitSize+7)/8)
	case *rsa.PrivateKey:
		var options crypto.SignerOpts = hash
		if strings.HasPrefix(k.alg, "PS") {
			options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		signature, err := key.Sign(rand.Reader, digest, options)
		if err != nil {
			panic(err)
		}
		return signature
	}
	panic("unknown type of key")
}

func halves(r, s *big.Int, size int) []byte {
	return slices.Concat(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size)))
}

// headers returns a good protected header as JSON, with other members and with
// "member:value" in the place of good ones; "member:" leaves one out.
func (k testKey) header(changes ...string) string {
	names := []string{"alg", "nonce", "url", "kid"}
	m := map[string]string{"alg": `"` + k.alg + `"`, "nonce": `"bm9uY2U"`, "url": `"` + requestURL + `"`, "kid": `"` + accountURL + `"`}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, ":")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		m[name] = strings.ReplaceAll(value, "$JWK", k.jwk())
	}
	var all []string
	for _, name := range names {
		if m[name] != "" {
			all = append(all, `"`+name+`":`+m[name])
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// message returns a signed message in its three parts.
func (k testKey) message(protected, payload string) signedMessage {
	m := signedMessage{Protected: b64(protected), Payload: b64(payload)}
	m.Signature = b64(string(k.sign(m.Protected + "." + m.Payload)))
	return m
}

// signedMessage is a message in the flattened form.
type signedMessage struct {
	Protected string `json:"protected"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

func (m signedMessage) body() string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// in returns a text in which $P, $L and $S stand for the parts.
func (m signedMessage) in(template string) string {
	return strings.NewReplacer("$P", m.Protected, "$L", m.Payload, "$S", m.Signature).Replace(template)
}

func b64(data string) string { return base64.RawURLEncoding.EncodeToString([]byte(data)) }

func hmacOf(hash crypto.Hash, key []byte, input string) string {
	mac := hmac.New(hash.New, key)
	mac.Write([]byte(input))
	return string(mac.Sum(nil))
}

// outcome returns what the server says about a message of an account with a key:
// the type of the problem, "" for none.
func outcome(body string, account *jws.Key, options jws.Options) string {
	_, problem := read(body, account, options)
	return kind(problem)
}

// read parses and verifies a message, of an account with a key if it has none.
func read(body string, account *jws.Key, options jws.Options) (*jws.Message, *rfc8555.Problem) {
	unverified, problem := jws.Parse([]byte(body), jws.Anybody, options)
	if problem != nil {
		return nil, problem
	}
	return unverified.Verify(account)
}

func kind(problem *rfc8555.Problem) string {
	if problem == nil {
		return ""
	}
	return problem.Word()
}

// checkAnswer checks that a problem can be sent.
func checkAnswer(t *testing.T, reason string, problem *rfc8555.Problem) {
	t.Helper()
	if problem.Status/100 != 4 || problem.Detail == "" || len(problem.Detail) > 1024 {
		t.Errorf("%s: %+v", reason, problem)
	}
	if problem.HasType(rfc8555.ProblemBadSignatureAlgorithm) != (len(problem.Algorithms) > 0) {
		t.Errorf("%s: the type is %s, the algorithms are %v", reason, problem.Type, problem.Algorithms)
	}
}
