package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // for the algorithms
	_ "crypto/sha512"
	"math/big"
	"net/http"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// algorithm is one of RFC 7518 section 3.1 or RFC 8037 section 3.1.
type algorithm struct {
	name string
	// more is set if only Options.MoreAlgorithms permits it.
	more   bool
	fits   func(public crypto.PublicKey) bool
	verify func(public crypto.PublicKey, input, signature []byte) bool
}

// algorithms are all that can be permitted: none is symmetric, and each ECDSA one
// belongs to one curve.
var algorithms = []algorithm{
	{name: "ES256", fits: onCurve(elliptic.P256()), verify: verifyECDSA(crypto.SHA256)},
	{name: "ES384", fits: onCurve(elliptic.P384()), verify: verifyECDSA(crypto.SHA384)},
	{name: "ES512", fits: onCurve(elliptic.P521()), verify: verifyECDSA(crypto.SHA512)},
	{name: "RS256", fits: isRSA, verify: verifyPKCS1(crypto.SHA256)},
	{name: "EdDSA", fits: isEd25519, verify: verifyEd25519},
	{name: "RS384", more: true, fits: isRSA, verify: verifyPKCS1(crypto.SHA384)},
	{name: "RS512", more: true, fits: isRSA, verify: verifyPKCS1(crypto.SHA512)},
	{name: "PS256", more: true, fits: isRSA, verify: verifyPSS(crypto.SHA256)},
	{name: "PS384", more: true, fits: isRSA, verify: verifyPSS(crypto.SHA384)},
	{name: "PS512", more: true, fits: isRSA, verify: verifyPSS(crypto.SHA512)},
}

// algorithm returns the algorithm of a protected header.
func (o Options) algorithm(h members) (*algorithm, *rfc8555.Problem) {
	name, _ := h.text("alg")
	for i := range algorithms {
		if a := &algorithms[i]; a.name == name && (o.MoreAlgorithms || !a.more) {
			return a, nil
		}
	}
	return nil, o.badAlgorithm("the algorithm %s is not accepted", rfc8555.Quote(name))
}

// badAlgorithm returns a problem that lists the algorithms (RFC 8555 section 6.2).
func (o Options) badAlgorithm(format string, args ...any) *rfc8555.Problem {
	problem := rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemBadSignatureAlgorithm, format, args...)
	for _, a := range algorithms {
		if o.MoreAlgorithms || !a.more {
			problem.Algorithms = append(problem.Algorithms, a.name)
		}
	}
	return problem
}

// Verify verifies the signature with the key in the message or, if it has a KID, with
// the key of that account.
//
// The standard library verifies, not go-jose: this would parse the header again, and
// refuse RSA keys of more than 4096 bits in it.
func (u *Unverified) Verify(account *Key) (*Message, *rfc8555.Problem) {
	key := u.Key
	if key == nil {
		key = account
	}
	if !u.algorithm.fits(key.public) {
		return nil, u.options.badAlgorithm("the algorithm %s does not fit the key", u.algorithm.name)
	}
	for _, signature := range u.spellings(key) {
		if u.algorithm.verify(key.public, []byte(u.input), signature) {
			return &Message{Key: key, KID: u.KID, URL: u.url, Payload: u.payload, nonce: u.nonce}, nil
		}
	}
	return nil, malformed("the signature does not verify")
}

// spellings returns the signatures to try: the one in the message or, with
// ShortECDSASignatures, the possible full forms of an ECDSA signature that lacks up to two
// bytes.
func (u *Unverified) spellings(key *Key) [][]byte {
	public, isECDSA := key.public.(*ecdsa.PublicKey)
	if !isECDSA || !u.options.ShortECDSASignatures {
		return [][]byte{u.signature}
	}
	size := coordinateSize(public)
	missing := 2*size - len(u.signature)
	if missing <= 0 || missing > 2 {
		return [][]byte{u.signature}
	}
	var all [][]byte
	for first := range missing + 1 { // bytes missing in the first number
		whole := make([]byte, 2*size)
		copy(whole[first:size], u.signature[:size-first])
		copy(whole[size+missing-first:], u.signature[size-first:])
		all = append(all, whole)
	}
	return all
}

func onCurve(curve elliptic.Curve) func(crypto.PublicKey) bool {
	return func(public crypto.PublicKey) bool {
		key, ok := public.(*ecdsa.PublicKey)
		return ok && key.Curve == curve
	}
}

func isRSA(public crypto.PublicKey) bool {
	_, ok := public.(*rsa.PublicKey)
	return ok
}

func isEd25519(public crypto.PublicKey) bool {
	_, ok := public.(ed25519.PublicKey)
	return ok
}

func coordinateSize(key *ecdsa.PublicKey) int { return (key.Curve.Params().BitSize + 7) / 8 }

func digest(hash crypto.Hash, input []byte) []byte {
	h := hash.New()
	h.Write(input)
	return h.Sum(nil)
}

// verifyECDSA: two numbers of the size of a coordinate (RFC 7518 section 3.4).
func verifyECDSA(hash crypto.Hash) func(crypto.PublicKey, []byte, []byte) bool {
	return func(public crypto.PublicKey, input, signature []byte) bool {
		key := public.(*ecdsa.PublicKey)
		size := coordinateSize(key)
		if len(signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(key, digest(hash, input), r, s)
	}
}

func verifyPKCS1(hash crypto.Hash) func(crypto.PublicKey, []byte, []byte) bool {
	return func(public crypto.PublicKey, input, signature []byte) bool {
		return rsa.VerifyPKCS1v15(public.(*rsa.PublicKey), hash, digest(hash, input), signature) == nil
	}
}

// verifyPSS: the salt is as long as the digest (RFC 7518 section 3.5).
func verifyPSS(hash crypto.Hash) func(crypto.PublicKey, []byte, []byte) bool {
	return func(public crypto.PublicKey, input, signature []byte) bool {
		options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
		return rsa.VerifyPSS(public.(*rsa.PublicKey), hash, digest(hash, input), signature, options) == nil
	}
}

func verifyEd25519(public crypto.PublicKey, input, signature []byte) bool {
	return ed25519.Verify(public.(ed25519.PublicKey), input, signature)
}
