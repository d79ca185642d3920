package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

// Key is a public key that was checked: of an account, or of a certificate. It is
// immutable.
type Key struct {
	public     crypto.PublicKey
	jwk        []byte
	thumbprint [32]byte
	// algorithm is the member alg of the JWK, which can be empty.
	algorithm string
}

// Public returns a *rsa.PublicKey, a *ecdsa.PublicKey or an ed25519.PublicKey.
func (k *Key) Public() crypto.PublicKey { return k.public }

// JWK returns the key as a JWK (RFC 7517) with the members that make the key, always
// the same bytes for the same key. StoredKey reads them.
func (k *Key) JWK() []byte { return slices.Clone(k.jwk) }

// Thumbprint returns the SHA-256 thumbprint (RFC 7638).
func (k *Key) Thumbprint() [32]byte { return k.thumbprint }

// ThumbprintText returns the thumbprint in base64url, the form used in answers to
// challenges (RFC 8555 section 8.1).
func (k *Key) ThumbprintText() string { return base64.RawURLEncoding.EncodeToString(k.thumbprint[:]) }

// Cost returns the cost of verifying a signature; 1 is the cost for the usual keys: P-256,
// Ed25519 and RSA of up to 4096 bits. The larger curves take 10 to 20 times as long, but
// count 8, so that an address can have several verified at once.
func (k *Key) Cost() int {
	switch key := k.public.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() > maxRSA {
			return 4
		}
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize > 256 {
			return 8
		}
	}
	return 1
}

// Equal reports whether both are the same key. Other spellings of a key count.
func (k *Key) Equal(other *Key) bool { return k.thumbprint == other.thumbprint }

// ParseKey parses the JWK of a client and checks the key by the rules of KeyOf. Its
// problems have the type badPublicKey.
func ParseKey(jwk []byte, options Options) (*Key, *rfc8555.Problem) {
	key, err := parseKey(jwk)
	if err == nil {
		err = options.checkKey(key.public)
	}
	if err != nil {
		return nil, badKey(err)
	}
	return key, nil
}

// StoredKey parses what JWK has returned. The key was checked by the rules of its
// time, and stays in force if these become stricter.
func StoredKey(jwk []byte) (*Key, error) {
	key, err := parseKey(jwk)
	if err != nil {
		return nil, fmt.Errorf("parsing a stored key: it %w", err)
	}
	return key, nil
}

// KeyOf checks the key of a certificate request or of a certificate: ECDSA on P-256, P-384
// or P-521, Ed25519, or RSA of 2048 to 4096 bits (8192 with LargeRSA) with the exponent
// 65537 and without a known weakness. Its problems have the type badPublicKey.
func KeyOf(public crypto.PublicKey, options Options) (*Key, *rfc8555.Problem) {
	if err := options.checkKey(public); err != nil {
		return nil, badKey(err)
	}
	key, err := keyOf(public)
	if err != nil {
		return nil, badKey(err)
	}
	return key, nil
}

func badKey(err error) *rfc8555.Problem {
	return rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemBadPublicKey, "the public key %v", err)
}

// Sizes of RSA keys in bits.
const (
	minRSA      = 2048
	maxRSA      = 4096
	maxLargeRSA = 8192
	rsaExponent = 65537
	// minCertificateRSA is the smallest key whose signatures the standard library
	// verifies.
	minCertificateRSA = 1024
)

func (o Options) checkKey(public crypto.PublicKey) error {
	least := minRSA
	if o.CertificateKey {
		least = minCertificateRSA
	}
	if err := pki.CheckPublicKey(public, least); err != nil {
		return fmt.Errorf("cannot be used: %w", err)
	}
	key, isRSA := public.(*rsa.PublicKey)
	if !isRSA {
		return nil
	}
	most := maxRSA
	if o.LargeRSA && !o.CertificateKey {
		most = maxLargeRSA
	}
	// A verification takes longer the larger the modulus and the exponent are. No
	// certificate has larger ones: certificate requests with them are refused.
	switch bits := key.N.BitLen(); {
	case bits > most:
		return fmt.Errorf("cannot be used: RSA key of %d bits is larger than the supported %d bits", bits, most)
	case o.CertificateKey && key.E > rsaExponent:
		return fmt.Errorf("cannot be used: RSA key has the public exponent %d, which is larger than %d", key.E, rsaExponent)
	case o.CertificateKey:
		return nil
	case bits%8 != 0:
		return fmt.Errorf("cannot be used: the size of an RSA key must be a multiple of 8 bits, not %d", bits)
	case key.E != rsaExponent:
		return fmt.Errorf("cannot be used: RSA key has the public exponent %d, which must be %d", key.E, rsaExponent)
	}
	if err := pki.CheckWeakKey(key); err != nil {
		return fmt.Errorf("cannot be used: %w", err)
	}
	return nil
}

// privateMembers are the members of private and of symmetric keys (RFC 7518 section 6, RFC
// 8037 section 2, RFC 9964).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"}

// parseKey parses a JWK: the members that belong to the type of the key must be in their
// canonical spelling, members that restrict the use of the key must allow signatures, and
// other members are ignored. It does not check the size and the quality of the key.
func parseKey(jwk []byte) (*Key, error) {
	m, err := readObject(jwk)
	if err != nil {
		return nil, err
	}
	if private := m.has(privateMembers...); private != "" {
		return nil, fmt.Errorf("has the member %q of a private key, which must never be sent: make a new key", private)
	}
	public, err := m.publicKey()
	if err != nil {
		return nil, err
	}
	if err := m.checkUse(); err != nil {
		return nil, err
	}
	key, err := keyOf(public)
	if err == nil && m.has("alg") != "" {
		key.algorithm, err = m.text("alg")
	}
	return key, err
}

func (m members) publicKey() (crypto.PublicKey, error) {
	kind, err := m.text("kty")
	if err != nil {
		return nil, err
	}
	switch kind {
	case "RSA":
		return m.rsaKey()
	case "EC":
		return m.curveKey("x", "y")
	case "OKP":
		return m.curveKey("x")
	}
	return nil, fmt.Errorf("has the type %s, which must be EC, OKP or RSA", rfc8555.Quote(kind))
}

// rsaKey reads an RSA key (RFC 7518 section 6.3.1). go-jose reads no key of more
// than 4096 bits, unless a variable of the whole program is changed.
func (m members) rsaKey() (*rsa.PublicKey, error) {
	modulus, err := m.octets("n")
	if err != nil {
		return nil, err
	}
	exponent, err := m.octets("e")
	if err != nil {
		return nil, err
	}
	for _, number := range [][]byte{modulus, exponent} {
		if len(number) == 0 || number[0] == 0 {
			return nil, errors.New("has a number that is zero or begins with a zero byte")
		}
	}
	e := new(big.Int).SetBytes(exponent)
	if e.BitLen() > 31 {
		return nil, errors.New("has an exponent that is too large")
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(e.Int64())}, nil
}

// curveKey reads a key on a curve. go-jose checks that it is a usable point.
func (m members) curveKey(coordinates ...string) (crypto.PublicKey, error) {
	reduced := members{"kty": m["kty"], "crv": m["crv"]}
	curve, err := m.text("crv")
	if err != nil {
		return nil, err
	}
	for _, name := range coordinates {
		if _, err := m.octets(name); err != nil {
			return nil, err
		}
		reduced[name] = m[name]
	}
	data, err := json.Marshal(reduced)
	if err != nil {
		return nil, err
	}
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(data); err != nil || !key.IsPublic() {
		return nil, fmt.Errorf("is not a point of the curve %s, or this curve is not one of P-256, P-384, P-521 and Ed25519", rfc8555.Quote(curve))
	}
	return key.Key, nil
}

// checkUse: RFC 7517 sections 4.2 and 4.3.
func (m members) checkUse() error {
	if m.has("use") != "" {
		if use, err := m.text("use"); err != nil || use != "sig" {
			return errors.New(`has a member "use" other than "sig"`)
		}
	}
	if m.has("key_ops") != "" {
		var operations []string
		if err := json.Unmarshal(m["key_ops"], &operations); err != nil || !slices.Contains(operations, "verify") {
			return errors.New(`has a member "key_ops" without "verify"`)
		}
	}
	return nil
}

func keyOf(public crypto.PublicKey) (*Key, error) {
	switch public.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("has the type %T, which must be RSA, ECDSA or Ed25519", public)
	}
	jwk := jose.JSONWebKey{Key: public}
	encoded, err := jwk.MarshalJSON()
	if err != nil {
		return nil, errors.New("is not a point of a curve that can be used")
	}
	thumbprint, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, errors.New("has no thumbprint")
	}
	return &Key{public: public, jwk: encoded, thumbprint: [32]byte(thumbprint)}, nil
}
