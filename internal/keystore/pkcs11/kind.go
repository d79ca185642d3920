//go:build pkcs11

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	"github.com/miekg/pkcs11"
)

// kind converts between the signatures of Go and of tokens, for one algorithm.
type kind struct {
	name      string
	keyType   uint        // CKA_KEY_TYPE
	mechanism uint        // of signatures
	hash      crypto.Hash // for proofs; 0: the token hashes
	// input returns the input of the mechanism for a digest.
	input func(digest []byte, opts crypto.SignerOpts) ([]byte, error)
	// encode converts the output of the mechanism to the form that Go's
	// verifiers accept.
	encode func(raw []byte) ([]byte, error)
	verify func(digest, signature []byte) bool
}

// EdDSA, from PKCS#11 3.0.
const (
	ckkECEdwards = 0x40
	ckmEdDSA     = 0x1057
)

func kindOf(public crypto.PublicKey) (kind, error) {
	switch public := public.(type) {
	case *rsa.PublicKey:
		return rsaKind(public), nil
	case *ecdsa.PublicKey:
		return ecdsaKind(public), nil
	case ed25519.PublicKey:
		return ed25519Kind(public), nil
	}
	return kind{}, fmt.Errorf("keys of type %T are not supported on a token: use RSA, ECDSA or Ed25519", public)
}

func rsaKind(public *rsa.PublicKey) kind {
	return kind{
		name: "RSA", keyType: pkcs11.CKK_RSA, mechanism: pkcs11.CKM_RSA_PKCS, hash: crypto.SHA256,
		input:  digestInfo,
		encode: asIs,
		verify: func(digest, signature []byte) bool {
			return rsa.VerifyPKCS1v15(public, crypto.SHA256, digest, signature) == nil
		},
	}
}

func ecdsaKind(public *ecdsa.PublicKey) kind {
	size := (public.Params().N.BitLen() + 7) / 8
	return kind{
		name: "EC", keyType: pkcs11.CKK_EC, mechanism: pkcs11.CKM_ECDSA, hash: crypto.SHA256,
		// FIPS 186-5 section 6.4.1: if a hash is longer than the curve's order,
		// only its first bits are used, and tokens refuse a longer one.
		input:  func(digest []byte, _ crypto.SignerOpts) ([]byte, error) { return digest[:min(len(digest), size)], nil },
		encode: func(raw []byte) ([]byte, error) { return ecdsaSignature(raw, size) },
		verify: func(digest, signature []byte) bool { return ecdsa.VerifyASN1(public, digest, signature) },
	}
}

func ed25519Kind(public ed25519.PublicKey) kind {
	return kind{
		name: "Ed25519", keyType: ckkECEdwards, mechanism: ckmEdDSA,
		input: func(message []byte, opts crypto.SignerOpts) ([]byte, error) {
			if opts.HashFunc() != 0 {
				return nil, errors.New("an Ed25519 key signs messages, not their hashes")
			}
			return message, nil
		},
		encode: asIs,
		verify: func(message, signature []byte) bool { return ed25519.Verify(public, message, signature) },
	}
}

func asIs(raw []byte) ([]byte, error) { return raw, nil }

// hashes are the hashes for signatures with RSA (RFC 8017 appendix B.1).
var hashes = map[crypto.Hash]asn1.ObjectIdentifier{
	crypto.SHA256: {2, 16, 840, 1, 101, 3, 4, 2, 1},
	crypto.SHA384: {2, 16, 840, 1, 101, 3, 4, 2, 2},
	crypto.SHA512: {2, 16, 840, 1, 101, 3, 4, 2, 3},
}

// digestInfo returns the structure that RSASSA-PKCS1-v1_5 signs (RFC 8017
// section 9.2).
func digestInfo(digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if _, pss := opts.(*rsa.PSSOptions); pss {
		return nil, errors.New("RSA-PSS is not supported: sign with PKCS#1 v1.5, as the certificates of CAs mostly are")
	}
	oid, ok := hashes[opts.HashFunc()]
	if !ok || len(digest) != opts.HashFunc().Size() {
		return nil, fmt.Errorf("RSA signatures over %v are not supported", opts.HashFunc())
	}
	return asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}{pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: asn1.NullRawValue}, digest})
}

// ecdsaSignature converts two numbers of size bytes to the ASN.1 structure that
// RFC 3279 section 2.2.3 requires in certificates.
func ecdsaSignature(raw []byte, size int) ([]byte, error) {
	if len(raw) != 2*size {
		return nil, fmt.Errorf("the token's signature has %d bytes, not the %d of this curve", len(raw), 2*size)
	}
	return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:size]), new(big.Int).SetBytes(raw[size:])})
}
