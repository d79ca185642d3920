package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
)

// Unsigned is Request without a signature, for a key of the kind of key that is
// not made yet: it shows what will be requested. Every program refuses it that
// verifies the proof that the requester has the key.
func (c Content) Unsigned(key crypto.PublicKey) ([]byte, error) {
	der, err := c.unsigned(key)
	if err != nil {
		return nil, fmt.Errorf("making certificate request: %w", err)
	}
	return EncodeRequest(&x509.CertificateRequest{Raw: der}), nil
}

// unsignedRequest is a CertificationRequest (RFC 2986 section 4).
type unsignedRequest struct {
	Info      unsignedInfo
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

type unsignedInfo struct {
	Version      int
	Subject, Key asn1.RawValue
	Attributes   []extensionRequest `asn1:"tag:0,set"`
}

// extensionRequest is the attribute of RFC 2985 section 5.4.2.
type extensionRequest struct {
	ID         asn1.ObjectIdentifier
	Extensions [][]pkix.Extension `asn1:"set"`
}

func (c Content) unsigned(key crypto.PublicKey) ([]byte, error) {
	algorithm, err := c.algorithm(key)
	if err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	extensions, err := c.extensions()
	if err != nil {
		return nil, err
	}
	subject := c.RawSubject
	if len(subject) == 0 {
		subject = slices.Clone(emptyName[:])
	}
	r := unsignedRequest{Algorithm: algorithm, Info: unsignedInfo{
		Subject: asn1.RawValue{FullBytes: subject}, Key: asn1.RawValue{FullBytes: spki}, Attributes: []extensionRequest{},
	}}
	if len(extensions) > 0 {
		r.Info.Attributes = append(r.Info.Attributes, extensionRequest{oidExtensionRequest, [][]pkix.Extension{extensions}})
	}
	return asn1.Marshal(r)
}

// signatureAlgorithms are the identifiers of RFC 4055 section 5, RFC 5758
// section 3.2 and RFC 8410 section 3.
var signatureAlgorithms = map[x509.SignatureAlgorithm]pkix.AlgorithmIdentifier{
	x509.SHA256WithRSA:   {Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue},
	x509.SHA384WithRSA:   {Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 12}, Parameters: asn1.NullRawValue},
	x509.SHA512WithRSA:   {Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 13}, Parameters: asn1.NullRawValue},
	x509.ECDSAWithSHA256: {Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}},
	x509.ECDSAWithSHA384: {Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}},
	x509.ECDSAWithSHA512: {Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 4}},
	x509.PureEd25519:     {Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}},
}

// algorithm returns the algorithm with which Request signs, which uses the
// standard library's defaults.
func (c Content) algorithm(key crypto.PublicKey) (pkix.AlgorithmIdentifier, error) {
	chosen := c.Algorithm
	if _, isRSA := key.(*rsa.PublicKey); chosen == x509.UnknownSignatureAlgorithm && isRSA {
		chosen = x509.SHA256WithRSA
	}
	if chosen == x509.UnknownSignatureAlgorithm {
		var err error
		if chosen, err = SignatureAlgorithm(key); err != nil {
			return pkix.AlgorithmIdentifier{}, err
		}
	}
	id, known := signatureAlgorithms[chosen]
	if !known {
		return id, fmt.Errorf("the signature algorithm %v is not supported", chosen)
	}
	return id, nil
}

// PlaceholderKey returns the public key that stands for a key of a type that has not been
// generated yet. It is always the same and must not be trusted.
func PlaceholderKey(t KeyType) (crypto.PublicKey, error) {
	switch t {
	case RSA2048:
		return PlaceholderRSAKey(2048)
	case RSA3072:
		return PlaceholderRSAKey(3072)
	case RSA4096:
		return PlaceholderRSAKey(4096)
	case ECDSAP256:
		return generator(elliptic.P256())
	case ECDSAP384:
		return generator(elliptic.P384())
	case ECDSAP521:
		return generator(elliptic.P521())
	case Ed25519:
		return make(ed25519.PublicKey, ed25519.PublicKeySize), nil
	}
	return nil, fmt.Errorf("unknown key type %q", t)
}

// generator returns the base point of a curve as a key.
func generator(curve elliptic.Curve) (crypto.PublicKey, error) {
	p := curve.Params()
	size := (p.BitSize + 7) / 8
	point := append([]byte{4}, p.Gx.FillBytes(make([]byte, size))...) // not compressed (SEC 1 section 2.3.3)
	return ecdsa.ParseUncompressedPublicKey(curve, append(point, p.Gy.FillBytes(make([]byte, size))...))
}

// PlaceholderRSAKey is PlaceholderKey for an RSA key of any size.
func PlaceholderRSAKey(bits int) (crypto.PublicKey, error) {
	if err := checkRSASize(bits); err != nil {
		return nil, err
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}, nil
}
