package facts

import (
	"crypto/ed25519"
	"fmt"
	"os"

	"github.com/certplane/certplane/internal/policies"
)

// ReadSealKeys returns the public keys in a file.
func ReadSealKeys(file string) ([]ed25519.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	keys, err := policies.ParseSealKeys(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(keys) == 0:
		return nil, fmt.Errorf("%s: contains no public keys in PEM; use the field %s of the ConfigMap", file, policies.SealKeysField)
	}
	return keys, nil
}
