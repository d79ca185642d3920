package authn

import (
	"crypto"
	"fmt"
	"os"

	"k8s.io/client-go/util/keyutil"

	"github.com/certplane/certplane/internal/pki"
)

// formerKeys reads the keys that signed tokens in the past.
func (s ServiceAccounts) formerKeys() ([]crypto.PublicKey, error) {
	var all []crypto.PublicKey
	for i, file := range s.FormerKeyFiles {
		keys, err := readPublicKeys(file)
		if err != nil {
			return nil, fmt.Errorf("authentication.serviceAccounts.formerKeyFiles[%d]: %w", i, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// readPublicKeys reads public keys, and the public key of a private one.
func readPublicKeys(file string) ([]crypto.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if private, err := pki.ParsePrivateKey(data); err == nil {
		return []crypto.PublicKey{private.Public()}, nil
	}
	keys, err := keyutil.ParsePublicKeysPEM(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	var public []crypto.PublicKey
	for _, key := range keys {
		public = append(public, key)
	}
	return public, nil
}

// issuers returns all issuers whose tokens are accepted, the current one first.
func (s ServiceAccounts) issuers() []string {
	return append([]string{s.Issuer}, s.FormerIssuers...)
}
