package pki

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"regexp"
)

// MaxRequestBytes is the maximum size of a request in PEM, in bytes, including
// text around its block: the largest keys and a hundred names fit, and parsing
// it is cheap. It is cert-manager's limit.
const MaxRequestBytes = 36_500

// ErrRequestBlockType reports data whose first PEM block is absent or is not
// a certificate request.
var ErrRequestBlockType = errors.New("PEM block type must be CERTIFICATE REQUEST")

// Request is the full content of a PKCS#10 certificate request. The parts that
// the standard library does not parse are parsed here, once for all callers.
// Each caller decides what to do about an extension that has an Err. Strict
// reports whether the request contains anything that a Request does not show.
// It must not be modified.
type Request struct {
	*x509.CertificateRequest

	// CA has the requested basic constraints: whether a CA certificate is
	// requested, and its path length.
	CA Extension[BasicConstraints]
	// KeyUsage has the bits that have a name; for other bits Err is
	// ErrUnknownKeyUsage.
	KeyUsage Extension[x509.KeyUsage]
	// ExtKeyUsage are purposes in the order of the request.
	ExtKeyUsage Extension[[]asn1.ObjectIdentifier]
	// OtherNames are the alternative names that are not among DNSNames,
	// IPAddresses, URIs and EmailAddresses. One whose value is not a text has an
	// empty value. Err is about names of all kinds.
	OtherNames Extension[[]OtherName]
	// Other are all other extensions.
	Other []pkix.Extension
}

// Extension is the content of one extension of a request.
type Extension[T any] struct {
	// Present is set if the request has the extension.
	Present bool
	// Value is the part of it that can be parsed.
	Value T
	// Err is why Value is not its full content.
	Err error
}

// BasicConstraints is the extension of RFC 5280 section 4.2.1.9.
type BasicConstraints struct {
	IsCA bool `asn1:"optional"`
	// MaxPathLen is negative for no limit.
	MaxPathLen int `asn1:"optional,default:-1"`
}

// ErrUnknownKeyUsage reports key usage bits that RFC 5280 does not define.
var ErrUnknownKeyUsage = errors.New("has key usages that do not exist")

var errMalformed = errors.New("is malformed")

// ParseRequest returns the PKCS#10 certificate request in the first PEM block
// of data. Text before that block and everything after it are ignored.
// It does not verify the request's signature; VerifyRequest does.
func ParseRequest(data []byte) (*Request, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != RequestBlockType {
		return nil, ErrRequestBlockType
	}
	return ParseRequestDER(block.Bytes)
}

// ParseRequestDER is ParseRequest without PEM.
func ParseRequestDER(der []byte) (*Request, error) {
	return parseRequest(der, func(der []byte) (*Request, error) {
		req, err := x509.ParseCertificateRequest(der)
		if err != nil {
			return nil, withoutAddresses(err)
		}
		return ReadRequest(req), nil
	})
}

// addresses are the parameters that package asn1 prints as addresses in memory.
var addresses = regexp.MustCompile(`(tag|defaultValue):0x[0-9a-f]+`)

// withoutAddresses returns an error of package asn1 whose text is the same each time and
// does not reveal memory addresses of the process.
func withoutAddresses(err error) error {
	var structural asn1.StructuralError
	if !errors.As(err, &structural) || !addresses.MatchString(structural.Msg) {
		return err
	}
	structural.Msg = addresses.ReplaceAllString(structural.Msg, "$1:set")
	return structural
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

// VerifyRequest verifies that the requester has the private key: it checks the
// request's signature with the public key in it. RSA keys of more than 16,384
// bits are refused without verification.
func VerifyRequest(req *x509.CertificateRequest) error {
	if key, ok := req.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
		return checkRSA(key, 0)
	}
	digest, known := digestOf(req)
	if known && verified.has(digest) {
		return nil
	}
	err := req.CheckSignature()
	if err == nil && known {
		verified.add(digest)
	}
	return err
}

// EncodeRequest returns a request as a PEM block.
func EncodeRequest(req *x509.CertificateRequest) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: RequestBlockType, Bytes: req.Raw})
}
