package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"math/big"
)

// RequestTemplate returns the template of the end-entity certificate for a
// request. The public key, the subject (byte for byte as requested and
// reviewed), and the DNS, e-mail, IP and URI names come from the request. Other
// parts of the request (basic constraints, usages, policies, other kinds of
// names) are ignored: usages come only from the reviewed object. The key
// identifiers and the issuer are added by Lint.
func RequestTemplate(req *x509.CertificateRequest, usages Usages, validity Validity, serial *big.Int) *x509.Certificate {
	template := leafTemplate(usages, validity, serial)
	template.PublicKey = req.PublicKey
	template.Subject = req.Subject
	template.RawSubject = req.RawSubject
	template.DNSNames = req.DNSNames
	template.EmailAddresses = req.EmailAddresses
	template.IPAddresses = req.IPAddresses
	template.URIs = req.URIs
	return template
}

// subjectTemplate returns the template of an end-entity certificate without a
// request.
func subjectTemplate(s Subject, key crypto.PublicKey, usages Usages, validity Validity, serial *big.Int) *x509.Certificate {
	template := leafTemplate(usages, validity, serial)
	template.PublicKey = key
	template.Subject = s.name()
	template.DNSNames = s.DNSNames
	template.EmailAddresses = s.EmailAddresses
	template.IPAddresses = s.IPAddresses
	template.URIs = s.URIs
	return template
}

func leafTemplate(usages Usages, validity Validity, serial *big.Int) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    validity.NotBefore,
		NotAfter:     validity.NotAfter,
		KeyUsage:     usages.Key,
		ExtKeyUsage:  usages.Extended,
		// States "not a CA" explicitly.
		BasicConstraintsValid: true,
	}
}

// NewSerial returns a random serial number of 129 bits. It is positive, never
// zero, always 17 octets long and so within the 20 octets of RFC 5280 section
// 4.1.2.2; its 128 random bits make a repetition practically impossible.
func NewSerial(rand io.Reader) (*big.Int, error) {
	octets := [17]byte{0: 1}
	if _, err := io.ReadFull(rand, octets[1:]); err != nil {
		return nil, fmt.Errorf("reading randomness for a serial number: %w", err)
	}
	return new(big.Int).SetBytes(octets[:]), nil
}

// KeyID derives a key identifier: the leftmost 160 bits of the SHA-256 hash
// of the subjectPublicKey bit string. This is method 1 of RFC 7093 section 2,
// which keeps the size of RFC 5280's SHA-1 identifiers without SHA-1.
func KeyID(key crypto.PublicKey) ([]byte, error) {
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		PublicKey asn1.BitString
	}
	if _, err := asn1.Unmarshal(spki, &info); err != nil {
		return nil, fmt.Errorf("reading public key info: %w", err)
	}
	sum := sha256.Sum256(info.PublicKey.RightAlign())
	return sum[:20], nil
}
