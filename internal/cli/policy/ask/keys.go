package ask

import (
	"crypto"
	"fmt"
	"sync"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// Keys makes one key of each type, because large ones take seconds. The zero
// value is ready. It is safe for concurrent use.
type Keys struct {
	mu   sync.Mutex // guards made
	made map[string]crypto.Signer
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
	return k.get(string(kind), func() (crypto.Signer, error) { return pki.GenerateKey(kind) })
}

// ForCertificate returns a key as a Certificate asks for it.
func (k *Keys) ForCertificate(spec *cmv1.CertificateSpec) (crypto.Signer, error) {
	name := "default"
	if p := spec.PrivateKey; p != nil {
		name = fmt.Sprintf("%s %d", p.Algorithm, p.Size)
	}
	return k.get(name, func() (crypto.Signer, error) { return wanted.NewKey(spec) })
}

func (k *Keys) get(name string, generate func() (crypto.Signer, error)) (crypto.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.made[name]; key != nil {
		return key, nil
	}
	key, err := generate()
	if err != nil {
		return nil, err
	}
	if k.made == nil {
		k.made = map[string]crypto.Signer{}
	}
	k.made[name] = key
	return key, nil
}
