package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
)

// keyTypes are the values of the field podCertificate.keyType.
var keyTypes = map[string]func() (crypto.Signer, error){
	"RSA3072":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 3072) },
	"RSA4096":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 4096) },
	"ECDSAP256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	"ECDSAP384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
	"ECDSAP521": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	"ED25519": func() (crypto.Signer, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	},
}

// KeyTypes returns the values that podCertificate.keyType can have.
func KeyTypes() []string {
	var names []string
	for name := range keyTypes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func newKey(keyType string) (crypto.Signer, error) {
	generate, ok := keyTypes[keyType]
	if !ok {
		return nil, fmt.Errorf("unknown key type %q: use one of %s", keyType, strings.Join(KeyTypes(), ", "))
	}
	key, err := generate()
	if err != nil {
		return nil, fmt.Errorf("generating a key of type %s: %w", keyType, err)
	}
	return key, nil
}
