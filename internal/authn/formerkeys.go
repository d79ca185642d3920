package authn

import (
	"crypto"
	"fmt"

	"k8s.io/client-go/util/keyutil"
)

// formerKeys reads the keys that signed tokens before.
func (s ServiceAccounts) formerKeys() ([]crypto.PublicKey, error) {
	var all []crypto.PublicKey
	for i, file := range s.FormerKeyFiles {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("authentication.serviceAccounts.formerKeyFiles[%d]: %w", i, err)
		}
		for _, key := range keys {
			all = append(all, key)
		}
	}
	return all, nil
}

// issuers are all whose tokens are honoured, the current one first.
func (s ServiceAccounts) issuers() []string {
	return append([]string{s.Issuer}, s.FormerIssuers...)
}
