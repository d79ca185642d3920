package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// KeyType is the name of a kind of private key that certplane generates.
type KeyType string

// The key types.
const (
	RSA2048   KeyType = "rsa2048"
	RSA3072   KeyType = "rsa3072"
	RSA4096   KeyType = "rsa4096"
	ECDSAP256 KeyType = "ecdsa-p256"
	ECDSAP384 KeyType = "ecdsa-p384"
	ECDSAP521 KeyType = "ecdsa-p521"
	Ed25519   KeyType = "ed25519"
)

// KeyTypes returns all key types, the recommended one first.
func KeyTypes() []KeyType {
	return []KeyType{ECDSAP256, ECDSAP384, ECDSAP521, Ed25519, RSA2048, RSA3072, RSA4096}
}

// ParseKeyType parses a KeyType from a flag or a configuration field.
func ParseKeyType(name string) (KeyType, error) {
	var known []string
	for _, t := range KeyTypes() {
		if name == string(t) {
			return t, nil
		}
		known = append(known, string(t))
	}
	return "", fmt.Errorf("unknown key type %q: use one of %s", name, strings.Join(known, ", "))
}

// GenerateKey generates a private key from the operating system's randomness;
// the standard library accepts no other source for keys.
func GenerateKey(t KeyType) (crypto.Signer, error) {
	key, err := generate(t)
	if err != nil {
		return nil, fmt.Errorf("generating %s key: %w", t, err)
	}
	return key, nil
}

func generate(t KeyType) (crypto.Signer, error) {
	switch t {
	case RSA2048:
		return rsa.GenerateKey(rand.Reader, 2048)
	case RSA3072:
		return rsa.GenerateKey(rand.Reader, 3072)
	case RSA4096:
		return rsa.GenerateKey(rand.Reader, 4096)
	case ECDSAP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case ECDSAP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case ECDSAP521:
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, errors.New("unknown key type")
}

// The sizes of the RSA keys that GenerateRSAKey makes, in bits.
const (
	MinRSAKey = 2048
	MaxRSAKey = 8192
)

// GenerateRSAKey generates an RSA key of any size. From 4096 bits on, that
// takes seconds.
func GenerateRSAKey(bits int) (crypto.Signer, error) {
	if err := checkRSASize(bits); err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("generating RSA key of %d bits: %w", bits, err)
	}
	return key, nil
}

func checkRSASize(bits int) error {
	if bits < MinRSAKey || bits > MaxRSAKey {
		return fmt.Errorf("RSA key of %d bits: use %d to %d", bits, MinRSAKey, MaxRSAKey)
	}
	return nil
}

// maxRSABits limits the size of the RSA keys whose signatures are verified.
// Verification time grows with the square of the modulus: at 16,384 bits it
// takes milliseconds, at the millions of bits that fit in a request body,
// minutes.
const maxRSABits = 16384

// CheckPublicKey reports whether a certificate can be issued for a key: RSA of
// at least minRSABits, ECDSA on a NIST curve, or Ed25519.
func CheckPublicKey(key crypto.PublicKey, minRSABits int) error {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return checkRSA(key, minRSABits)
	case *ecdsa.PublicKey:
		return checkCurve(key.Curve)
	case ed25519.PublicKey:
		return nil
	case nil:
		return errors.New("public key algorithm is not supported: use RSA, ECDSA or Ed25519")
	default:
		return fmt.Errorf("public key type %T is not supported: use RSA, ECDSA or Ed25519", key)
	}
}

// If the caller requires at least strongRSABits, keys with an exponent below
// strongExponent are refused (NIST SP 800-56B, section 6.2): with a small
// exponent, mistakes in programs that sign or verify are fatal.
const (
	strongRSABits  = 2048
	strongExponent = 65537
)

func checkRSA(key *rsa.PublicKey, minBits int) error {
	switch bits := key.N.BitLen(); {
	case bits < minBits:
		return fmt.Errorf("RSA key of %d bits is smaller than the required %d bits", bits, minBits)
	case bits > maxRSABits:
		return fmt.Errorf("RSA key of %d bits is larger than the supported %d bits", bits, maxRSABits)
	case key.E < 3 || key.E%2 == 0 || key.N.Bit(0) == 0:
		// No valid RSA key has such numbers: the key is broken or malicious.
		return errors.New("RSA key has an even modulus or an unusable exponent")
	case minBits >= strongRSABits && key.E < strongExponent:
		return fmt.Errorf("RSA key has the public exponent %d: make one with %d, as OpenSSL, Go and Java do by default", key.E, strongExponent)
	}
	return nil
}

func checkCurve(curve elliptic.Curve) error {
	switch curve {
	case elliptic.P224(), elliptic.P256(), elliptic.P384(), elliptic.P521():
		return nil
	}
	return fmt.Errorf("elliptic curve %s is not supported: use P-256, P-384 or P-521", curve.Params().Name)
}

// KubernetesKeyType returns the type of a key by the name that it has in keyType
// of pods' podCertificate sources. Types that pods cannot request also get a
// name.
func KubernetesKeyType(key crypto.PublicKey) string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N == nil {
			return "RSA"
		}
		return fmt.Sprintf("RSA%d", key.Size()*8)
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

// VerifyProof reports whether proof is the signature of message with a key, in the form that
// the API defines for PodCertificateRequests: of the message itself for Ed25519, and of its
// SHA-256 digest for other keys, RSA with PSS (RFC 8017).
func VerifyProof(key crypto.PublicKey, message, proof []byte) bool {
	digest := sha256.Sum256(message)
	switch key := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, proof)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, digest[:], proof)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(key, crypto.SHA256, digest[:], proof, nil) == nil
	default:
		return false
	}
}

// SameKey reports whether a and b are the same public key. Every public key of
// the standard library can be compared; a value that cannot equals no key.
func SameKey(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}
