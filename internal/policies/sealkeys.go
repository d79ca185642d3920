package policies

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// SealKeysField is the field of the ConfigMap rights.ApprovalKeys that has the public
// keys by which the server opens approvals, in PEM. Nothing that decides for the
// server reads it.
const SealKeysField = "keys.pem"

// publicKeyBlock is the label of PEM blocks with public keys (RFC 7468, section 13).
const publicKeyBlock = "PUBLIC KEY"

// EncodeSealKeys returns public keys in PEM, in their order.
func EncodeSealKeys(keys []ed25519.PublicKey) ([]byte, error) {
	var text []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("encoding a key that verifies approvals: %w", err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der})...)
	}
	return text, nil
}

// ParseSealKeys returns the public keys in PEM text, in their order. There may be
// none; text outside of blocks is ignored.
func ParseSealKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return keys, nil
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, errors.New("each key must be a public Ed25519 key")
		}
		keys = append(keys, key)
	}
}
