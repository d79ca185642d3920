//go:build pkcs11

package pkcs11

import (
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
)

// key is a private key on a token.
type key struct {
	token  *Token
	public crypto.PublicKey
	kind   kind
}

var _ crypto.Signer = (*key)(nil)

// Public returns the public half.
func (k *key) Public() crypto.PublicKey { return k.public }

// Sign signs a digest, or a message for an Ed25519 key, on the token, as
// crypto.Signer specifies. The token uses its own source of randomness.
func (k *key) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	var signature []byte
	err := k.token.with(func(c *connection) error {
		object, err := c.object(k)
		if err != nil {
			return err
		}
		signature, err = k.sign(c, object, digest, opts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("signing with %s: %w", k.token.uri, err)
	}
	return signature, nil
}

func (k *key) sign(c *connection, o object, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	input, err := k.kind.input(digest, opts)
	if err != nil {
		return nil, err
	}
	raw, err := c.sign(o, k.kind.mechanism, input)
	if err != nil {
		return nil, err
	}
	return k.kind.encode(raw)
}

// errOtherKey: an object on the token is not the wanted key.
var errOtherKey = errors.New("it does not belong to the CA certificate")

// prove makes a signature with an object, and verifies it with the public key.
// All tokens can do that, while many do not show the public half of a private
// key. The signed message can never be mistaken for a certificate.
func (k *key) prove(c *connection, o object) error {
	message := append([]byte("certplane: proof of possession of a CA's key\n"), make([]byte, 16)...)
	rand.Read(message[len(message)-16:]) // never fails: crypto/rand ends the process instead
	digest := message
	if k.kind.hash != 0 {
		hash := k.kind.hash.New()
		hash.Write(message)
		digest = hash.Sum(nil)
	}
	signature, err := k.sign(c, o, digest, k.kind.hash)
	if err != nil {
		return err
	}
	if !k.kind.verify(digest, signature) {
		return errOtherKey
	}
	return nil
}
