package credential

import (
	"crypto"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/pki"
)

// keyTypes are the values of the field podCertificate.keyType.
var keyTypes = map[string]pki.KeyType{
	"RSA3072": pki.RSA3072, "RSA4096": pki.RSA4096,
	"ECDSAP256": pki.ECDSAP256, "ECDSAP384": pki.ECDSAP384, "ECDSAP521": pki.ECDSAP521, "ED25519": pki.Ed25519,
}

// KeyTypes returns the values that podCertificate.keyType can have.
func KeyTypes() []string { return slices.Sorted(maps.Keys(keyTypes)) }

func newKey(keyType string) (crypto.Signer, error) {
	known, ok := keyTypes[keyType]
	if !ok {
		return nil, fmt.Errorf("unknown key type %q: use one of %s", keyType, strings.Join(KeyTypes(), ", "))
	}
	return pki.GenerateKey(known)
}
