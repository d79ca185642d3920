package pki

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
)

// MaxRequestBytes is how many bytes of PEM a request may have, with what is
// around its block: the largest keys and a hundred names fit, and reading it
// costs little. It is cert-manager's limit.
const MaxRequestBytes = 36_500

// ErrRequestBlockType reports data whose first PEM block is absent or is not
// a certificate request.
var ErrRequestBlockType = errors.New("PEM block type must be CERTIFICATE REQUEST")

// Request is all that a PKCS#10 certificate request says. What the standard
// library does not read of it is read here, once for all its readers: each of
// them says itself what it does about an extension that has an Err. Strict says
// whether there is anything that a Request does not show. It must not be
// modified.
type Request struct {
	*x509.CertificateRequest

	// CA is whether the certificate is to be that of a CA, and of which.
	CA Extension[BasicConstraints]
	// KeyUsage has the bits that have a name; with others Err is
	// ErrUnknownKeyUsage.
	KeyUsage Extension[x509.KeyUsage]
	// ExtKeyUsage are purposes in the order of the request.
	ExtKeyUsage Extension[[]asn1.ObjectIdentifier]
	// OtherNames are the alternative names that are not among DNSNames,
	// IPAddresses, URIs and EmailAddresses. One whose value is not a text has an
	// empty value. Err is about names of all kinds.
	OtherNames Extension[[]OtherName]
	// Other are the extensions that are none of these.
	Other []pkix.Extension

	// another reports whether a second PEM block follows.
	another bool
}

// Extension is what one extension of a request says.
type Extension[T any] struct {
	// Present reports whether the request has it.
	Present bool
	// Value is what can be read of it.
	Value T
	// Err says why Value is not all that it says.
	Err error
}

// BasicConstraints are those of RFC 5280 section 4.2.1.9.
type BasicConstraints struct {
	IsCA bool `asn1:"optional"`
	// MaxPathLen is negative without a limit.
	MaxPathLen int `asn1:"optional,default:-1"`
}

// ErrUnknownKeyUsage reports key usage bits that RFC 5280 does not have.
var ErrUnknownKeyUsage = errors.New("has key usages that do not exist")

var errMalformed = errors.New("is malformed")

// ParseRequest returns the PKCS#10 certificate request in the first PEM block
// of data. Text before that block and everything after it are ignored.
// It does not verify the request's signature; VerifyRequest does.
func ParseRequest(data []byte) (*Request, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != RequestBlockType {
		return nil, ErrRequestBlockType
	}
	req, err := ParseRequestDER(block.Bytes)
	if err != nil {
		return nil, err
	}
	next, _ := pem.Decode(rest)
	req.another = next != nil
	return req, nil
}

// ParseRequestDER is ParseRequest without PEM.
func ParseRequestDER(der []byte) (*Request, error) {
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, err
	}
	return ReadRequest(req), nil
}

// ReadRequest reads the extensions of a request.
func ReadRequest(req *x509.CertificateRequest) *Request {
	r := &Request{
		CertificateRequest: req,
		CA:                 read(req.Extensions, OIDBasicConstraints, parse[BasicConstraints]),
		KeyUsage:           read(req.Extensions, OIDKeyUsage, parseKeyUsage),
		ExtKeyUsage:        readExtKeyUsage(req.Extensions),
		OtherNames:         readOtherNames(req.Extensions),
	}
	for _, e := range req.Extensions {
		switch {
		case e.Id.Equal(OIDBasicConstraints), e.Id.Equal(OIDKeyUsage), e.Id.Equal(OIDExtKeyUsage), e.Id.Equal(OIDSubjectAltName):
		default:
			r.Other = append(r.Other, e)
		}
	}
	return r
}

// read reads one extension with parse, which can return a value with its error.
func read[T any](extensions []pkix.Extension, id asn1.ObjectIdentifier, parse func([]byte) (T, error)) Extension[T] {
	found := findExtension(extensions, id)
	if found == nil {
		return Extension[T]{}
	}
	value, err := parse(found.Value)
	return Extension[T]{Present: true, Value: value, Err: err}
}

func readExtKeyUsage(extensions []pkix.Extension) Extension[[]asn1.ObjectIdentifier] {
	return read(extensions, OIDExtKeyUsage, parse[[]asn1.ObjectIdentifier])
}

func parse[T any](value []byte) (T, error) {
	var parsed, none T
	if rest, err := asn1.Unmarshal(value, &parsed); err != nil || len(rest) > 0 {
		return none, errMalformed
	}
	return parsed, nil
}

// parseKeyUsage reads the bits of RFC 5280 section 4.2.1.3: digitalSignature is
// bit 0, decipherOnly bit 8.
func parseKeyUsage(value []byte) (usage x509.KeyUsage, err error) {
	bits, err := parse[asn1.BitString](value)
	for i := range bits.BitLength {
		switch {
		case bits.At(i) == 0:
		case i > 8:
			err = ErrUnknownKeyUsage
		default:
			usage |= 1 << i
		}
	}
	return usage, err
}

// VerifyRequest proves that the requester holds the private key: it checks
// the request's signature with the public key inside it. RSA keys of more
// than 16,384 bits are refused without the work of a verification.
func VerifyRequest(req *x509.CertificateRequest) error {
	if key, ok := req.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
		return checkRSA(key, 0)
	}
	return req.CheckSignature()
}

// EncodeRequest writes a request as a PEM block.
func EncodeRequest(req *x509.CertificateRequest) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: RequestBlockType, Bytes: req.Raw})
}
