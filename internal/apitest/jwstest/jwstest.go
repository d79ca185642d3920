// Package jwstest provides signed messages of ACME clients, good and hostile, to test all
// code that reads them: certplane's parser, its server, and the servers of other projects.
package jwstest

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

	"github.com/go-jose/go-jose/v4"
)

// Key is a key of a client, with the algorithm that it signs with.
type Key struct {
	crypto.Signer
	Alg string
}

// Keys has one key of each type. Keys take long to make.
var Keys = sync.OnceValue(func() map[string]Key {
	all := map[string]Key{}
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		all[alg] = Key{key, alg}
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	all["EdDSA"] = Key{key, "EdDSA"}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		all[alg] = Key{rsaKey, alg}
	}
	return all
})

// JWK returns the public key as JSON.
func (k Key) JWK() string {
	data, err := jose.JSONWebKey{Key: k.Public()}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return string(data)
}

// With returns the same key, to sign with another algorithm.
func (k Key) With(alg string) Key { return Key{k.Signer, alg} }

// Sign returns the signature of the key's algorithm (RFC 7518 section 3, RFC 8037).
func (k Key) Sign(input string) []byte {
	if k.Alg == "EdDSA" {
		return ed25519.Sign(k.Signer.(ed25519.PrivateKey), []byte(input))
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[k.Alg[2:]]
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
		if strings.HasPrefix(k.Alg, "PS") {
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

func quoted(text string) string { return `"` + text + `"` }

// halves returns an ECDSA signature (RFC 7518 section 3.4).
func halves(r, s *big.Int, size int) []byte {
	return slices.Concat(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size)))
}

// Request is where a message is for, and whose it is.
type Request struct{ URL, Nonce, Account string }

// Header returns a good protected header as JSON, with other members and with
// "member:value" in the place of good ones; "member:" leaves one out.
func (k Key) Header(to Request, changes ...string) string {
	names := []string{"alg", "nonce", "url", "kid"}
	m := map[string]string{"alg": quoted(k.Alg), "nonce": quoted(to.Nonce), "url": quoted(to.URL), "kid": quoted(to.Account)}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, ":")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		m[name] = strings.ReplaceAll(value, "$JWK", k.JWK())
	}
	var all []string
	for _, name := range names {
		if m[name] != "" {
			all = append(all, `"`+name+`":`+m[name])
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// Message returns a signed message in its three parts.
func (k Key) Message(protected, payload string) Message {
	m := Message{Protected: Base64(protected), Payload: Base64(payload)}
	m.Signature = Base64(string(k.Sign(m.Protected + "." + m.Payload)))
	return m
}

// Message is a message in the flattened form.
type Message struct {
	Protected string `json:"protected"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// Body returns the message as JSON.
func (m Message) Body() string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// In returns a text in which $P, $L and $S stand for the parts.
func (m Message) In(template string) string {
	return strings.NewReplacer("$P", m.Protected, "$L", m.Payload, "$S", m.Signature).Replace(template)
}

// Base64 is base64url without padding (RFC 7515 section 2).
func Base64(data string) string { return base64.RawURLEncoding.EncodeToString([]byte(data)) }

// HMAC returns a MAC (RFC 7518 section 3.2).
func HMAC(hash crypto.Hash, key []byte, input string) string {
	mac := hmac.New(hash.New, key)
	mac.Write([]byte(input))
	return string(mac.Sum(nil))
}
