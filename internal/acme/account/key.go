package account

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Key is the private key of an account.
type Key = crypto.Signer

// KeyTypes are the types of keys that accounts can have, the default first.
func KeyTypes() []pki.KeyType {
	return []pki.KeyType{pki.RSA2048, pki.RSA3072, pki.RSA4096, pki.ECDSAP256, pki.ECDSAP384}
}

// UnsuitableKeyError means that a key is valid, but of a type that ACME servers do not
// accept.
type UnsuitableKeyError struct{ Secret, Is string }

func (e *UnsuitableKeyError) Error() string {
	return fmt.Sprintf("ACME private key in %q is %s: use an RSA key of at least 2048 bits, or an ECDSA key on P-256 or P-384", e.Secret, e.Is)
}

const (
	minRSABits = 2048
	maxRSABits = 16384
)

// ReadKey returns the key of an account in a Secret. Its error does not show the
// key.
func ReadKey(secret *corev1.Secret, entry string) (Key, error) {
	data := secret.Data[entry]
	if len(data) == 0 {
		return nil, fmt.Errorf("no data for %q in secret '%s/%s'", entry, secret.Namespace, secret.Name)
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return nil, err
	}
	if is := unsuitable(key); is != "" {
		return nil, &UnsuitableKeyError{Secret: secret.Name, Is: is}
	}
	return key, nil
}

// unsuitable describes a key that accounts cannot have.
func unsuitable(key Key) string {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Sprintf("an RSA key of %d bits", bits)
		}
		return ""
	case *ecdsa.PrivateKey:
		name := key.Curve.Params().Name
		if name == "P-256" || name == "P-384" {
			return ""
		}
		return "an ECDSA key on " + name
	case ed25519.PrivateKey:
		return "an Ed25519 key"
	}
	return "a key of another type"
}

var errKeyType = errors.New("account keys are RSA or ECDSA keys")

// der returns a key as PKCS#1 or SEC 1, and the type of its PEM block.
func der(key Key) (data []byte, block string, err error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return x509.MarshalPKCS1PrivateKey(key), "RSA PRIVATE KEY", nil
	case *ecdsa.PrivateKey:
		data, err := x509.MarshalECPrivateKey(key)
		return data, "EC PRIVATE KEY", err
	}
	return nil, "", errKeyType
}

// KeyHash returns what status.acme.lastPrivateKeyHash has for a key: for RSA keys
// the hash that cert-manager has.
func KeyHash(key Key) (string, error) {
	data, _, err := der(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// EncodeKey returns a key as PEM, in the form that cert-manager reads: PKCS#1 for
// RSA keys.
func EncodeKey(key Key) ([]byte, error) {
	data, block, err := der(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: data}), nil
}
