package profile

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"strings"
)

// KeyType returns the type of a key by the name that pods use. Types that a
// Signer cannot name also get a name, for messages.
func KeyType(key crypto.PublicKey) string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N == nil {
			return "RSA"
		}
		return fmt.Sprintf("RSA%d", key.Size()*8) // as the API names it
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
