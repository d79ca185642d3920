package profile

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"strings"
)

// KeyType names the type of a key as pods do. Types that a Signer cannot
// name get a name all the same, for messages.
func KeyType(key crypto.PublicKey) string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N == nil {
			return "RSA"
		}
		return fmt.Sprintf("RSA%d", key.Size()*8) // as the API counts
	case *ecdsa.PublicKey:
		if key.Curve == nil {
			return "ECDSA"
		}
		return "ECDSA" + strings.ReplaceAll(key.Curve.Params().Name, "-", "")
	case ed25519.PublicKey:
		return "ED25519"
	default:
		return "unknown"
	}
}
