package ask

import (
	"crypto"
	"fmt"
	"sync"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// Keys creates one key of each type and reuses it, because large keys take seconds. The
// zero value is ready. It is safe for concurrent use.
type Keys struct {
	mu   sync.Mutex // guards made
	made map[pki.KeyType]crypto.Signer
}

var keyTypes = map[v1alpha1.KeyType]pki.KeyType{
	"":               pki.ECDSAP256,
	v1alpha1.RSA2048: pki.RSA2048, v1alpha1.RSA3072: pki.RSA3072, v1alpha1.RSA4096: pki.RSA4096,
	v1alpha1.ECDSAP256: pki.ECDSAP256, v1alpha1.ECDSAP384: pki.ECDSAP384, v1alpha1.ECDSAP521: pki.ECDSAP521, v1alpha1.ED25519: pki.Ed25519,
}

// Get returns a key of a type.
func (k *Keys) Get(t v1alpha1.KeyType) (crypto.Signer, error) {
	kind, known := keyTypes[t]
	if !known {
		return nil, fmt.Errorf("%q is not a type of keys: use RSA2048, RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519", t)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.made[kind]; key != nil {
		return key, nil
	}
	key, err := pki.GenerateKey(kind)
	if err != nil {
		return nil, err
	}
	if k.made == nil {
		k.made = map[pki.KeyType]crypto.Signer{}
	}
	k.made[kind] = key
	return key, nil
}
