package wanted

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// keySize returns the size in bits of the key that spec requests; Ed25519 keys
// have one size, 0 here.
func keySize(spec *cmv1.CertificateSpec) int {
	size := 0
	if spec.PrivateKey != nil {
		size = spec.PrivateKey.Size
	}
	switch algorithm := certmanager.KeyAlgorithm(spec); {
	case algorithm == cmv1.Ed25519KeyAlgorithm:
		return 0
	case size != 0:
		return size
	case algorithm == cmv1.ECDSAKeyAlgorithm:
		return 256
	}
	return 2048
}

var curves = map[int]pki.KeyType{256: pki.ECDSAP256, 384: pki.ECDSAP384, 521: pki.ECDSAP521}

// NewKey generates a private key as spec requests. Large RSA keys take seconds.
func NewKey(spec *cmv1.CertificateSpec) (crypto.Signer, error) {
	return keyFor(spec, pki.GenerateRSAKey, pki.GenerateKey)
}

// PlaceholderKey returns a public key that stands for the requested key of spec while that
// does not exist yet.
func PlaceholderKey(spec *cmv1.CertificateSpec) (crypto.PublicKey, error) {
	return keyFor(spec, pki.PlaceholderRSAKey, pki.PlaceholderKey)
}

// keyFor returns the key that spec requests: an RSA key of a size from rsaKey,
// others from key.
func keyFor[K any](spec *cmv1.CertificateSpec, rsaKey func(bits int) (K, error), key func(pki.KeyType) (K, error)) (K, error) {
	var none K
	switch algorithm, size := certmanager.KeyAlgorithm(spec), keySize(spec); algorithm {
	case cmv1.RSAKeyAlgorithm:
		return rsaKey(size)
	case cmv1.ECDSAKeyAlgorithm:
		kind, known := curves[size]
		if !known {
			return none, fmt.Errorf("spec.privateKey.size: ECDSA key of %d bits: use 256, 384 or 521", size)
		}
		return key(kind)
	case cmv1.Ed25519KeyAlgorithm:
		return key(pki.Ed25519)
	default:
		return none, fmt.Errorf("spec.privateKey.algorithm: %q is not known: use RSA, ECDSA or Ed25519", algorithm)
	}
}

// EncodeKey returns a key in PEM, in the encoding that spec requests.
func EncodeKey(spec *cmv1.CertificateSpec, key crypto.Signer) ([]byte, error) {
	if spec.PrivateKey != nil && spec.PrivateKey.Encoding == cmv1.PKCS8 {
		return pki.EncodePrivateKey(key)
	}
	return pki.EncodeTraditionalPrivateKey(key)
}

// RotatesKey reports whether each certificate gets a new key.
func RotatesKey(spec *cmv1.CertificateSpec) bool {
	return spec.PrivateKey == nil || spec.PrivateKey.RotationPolicy != cmv1.RotationPolicyNever
}

// KeyDifferences returns the fields of spec that request another kind of key.
func KeyDifferences(spec *cmv1.CertificateSpec, key crypto.PublicKey) []string {
	algorithm, size := kindOf(key)
	switch {
	case algorithm != certmanager.KeyAlgorithm(spec):
		return []string{"spec.privateKey.algorithm"}
	case size != keySize(spec):
		return []string{"spec.privateKey.size"}
	}
	return nil
}

func kindOf(key crypto.PublicKey) (algorithm cmv1.PrivateKeyAlgorithm, size int) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return cmv1.RSAKeyAlgorithm, key.N.BitLen()
	case *ecdsa.PublicKey:
		return cmv1.ECDSAKeyAlgorithm, key.Curve.Params().BitSize
	case ed25519.PublicKey:
		return cmv1.Ed25519KeyAlgorithm, 0
	}
	return "", 0
}
