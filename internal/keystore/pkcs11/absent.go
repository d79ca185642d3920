//go:build !pkcs11

package pkcs11

import (
	"context"
	"crypto"
	"errors"
)

var errAbsent = errors.New("this certplane was built without PKCS#11; build one that has it: CGO_ENABLED=1 go build -tags pkcs11 ./cmd/certplane")

// Validate reports whether a key can be used by this URI.
func Validate(uri string) error {
	if _, err := Parse(uri); err != nil {
		return err
	}
	return errAbsent
}

// Token is a placeholder for tokens, which this build does not support.
type Token struct{}

// Open always fails.
func Open(string) (*Token, error) { return nil, errAbsent }

// Find is never called.
func (*Token) Find(context.Context, crypto.PublicKey) (crypto.Signer, error) { return nil, errAbsent }

// Close is never called.
func (*Token) Close() error { return nil }
