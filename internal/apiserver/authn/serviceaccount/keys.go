package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// Keys signs tokens with one key and verifies them with that one and older
// ones.
type Keys struct {
	signer    crypto.Signer
	signing   key
	verifying []key
}

// key is a public key with its JOSE parameters.
type key struct {
	id     string
	method jwt.SigningMethod
	public crypto.PublicKey
}

// NewKeys returns keys that sign with signer and also verify signatures of the former keys.
// A key is an RSA key, or an ECDSA key on P-256, P-384 or P-521.
func NewKeys(signer crypto.Signer, former ...crypto.PublicKey) (*Keys, error) {
	signing, err := newKey(signer.Public())
	if err != nil {
		return nil, fmt.Errorf("using the signing key: %w", err)
	}
	keys := &Keys{signer: signer, signing: signing, verifying: []key{signing}}
	for i, public := range former {
		k, err := newKey(public)
		if err != nil {
			return nil, fmt.Errorf("using former key %d: %w", i+1, err)
		}
		if _, known := keys.find(k.id); !known {
			keys.verifying = append(keys.verifying, k)
		}
	}
	return keys, nil
}

func newKey(public crypto.PublicKey) (key, error) {
	method, err := methodOf(public)
	if err != nil {
		return key{}, err
	}
	id, err := keyID(public)
	if err != nil {
		return key{}, err
	}
	return key{id: id, method: method, public: public}, nil
}

// keyID derives the identifier as Kubernetes does, so that a key keeps its name
// when it moves between the two.
func keyID(public crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// methodOf returns the only JOSE algorithm of a key (RFC 7518 section 3.1).
func methodOf(public crypto.PublicKey) (jwt.SigningMethod, error) {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < 2048 { // RFC 7518 section 3.3
			return nil, fmt.Errorf("RSA key of %d bits is too small: use 2048 or more", public.N.BitLen())
		}
		return jwt.SigningMethodRS256, nil
	case *ecdsa.PublicKey:
		switch public.Curve {
		case elliptic.P256():
			return jwt.SigningMethodES256, nil
		case elliptic.P384():
			return jwt.SigningMethodES384, nil
		case elliptic.P521():
			return jwt.SigningMethodES512, nil
		}
	}
	return nil, fmt.Errorf("key of type %T cannot sign tokens: use RSA, or ECDSA on P-256, P-384 or P-521", public)
}

func (k *Keys) find(id string) (key, bool) {
	for _, candidate := range k.verifying {
		if candidate.id == id {
			return candidate, true
		}
	}
	return key{}, false
}

// verifier returns the key that must have signed token. The algorithm in the
// token's header must be the key's own (RFC 8725 section 3.1).
func (k *Keys) verifier(token *jwt.Token) (any, error) {
	id, named := token.Header["kid"].(string)
	if !named {
		return nil, errors.New("token has no key ID")
	}
	key, known := k.find(id)
	if !known || key.method.Alg() != token.Method.Alg() {
		return nil, errors.New("token is signed with an unknown key")
	}
	return key.public, nil
}

func (k *Keys) sign(claims jwt.Claims) (string, error) {
	token := jwt.NewWithClaims(k.signing.method, claims)
	delete(token.Header, "typ") // as in Kubernetes' tokens
	token.Header["kid"] = k.signing.id
	return token.SignedString(k.signer)
}
