package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"math/big"
	"strings"
)

// CertID returns the identifier of a certificate for renewal information (RFC
// 9773 section 4.1); "" if the certificate has no authority key identifier.
func CertID(cert *x509.Certificate) string {
	if len(cert.AuthorityKeyId) == 0 {
		return ""
	}
	return certID(cert.AuthorityKeyId, cert.SerialNumber)
}

func certID(authorityKeyID []byte, serialNumber *big.Int) string {
	encoded, err := asn1.Marshal(serialNumber)
	if err != nil {
		return ""
	}
	var serial asn1.RawValue
	if _, err := asn1.Unmarshal(encoded, &serial); err != nil {
		return ""
	}
	text := base64.RawURLEncoding
	return text.EncodeToString(authorityKeyID) + "." + text.EncodeToString(serial.Bytes)
}

// The largest parts of an identifier. Serial numbers have at most 20 octets (RFC
// 5280 section 4.1.2.2), those of some CAs another one.
const (
	maxKeyID  = 64
	maxSerial = 21
)

var errCertID = errors.New("it must be the key identifier of the authority and the serial number, each in base64url without padding, with a dot between them (RFC 9773 section 4.1)")

// ParseCertID returns the parts of an identifier of CertID: the authority key identifier and
// the serial number, which is not negative. Each certificate has one spelling: CertID
// returns the same text again.
func ParseCertID(text string) (authorityKeyID []byte, serial *big.Int, err error) {
	first, second, ok := strings.Cut(text, ".")
	if !ok || len(first) > base64.RawURLEncoding.EncodedLen(maxKeyID) || len(second) > base64.RawURLEncoding.EncodedLen(maxSerial) {
		return nil, nil, errCertID
	}
	authorityKeyID, err = base64.RawURLEncoding.DecodeString(first)
	if err != nil || len(authorityKeyID) == 0 {
		return nil, nil, errCertID
	}
	content, err := base64.RawURLEncoding.DecodeString(second)
	if err != nil || len(content) == 0 {
		return nil, nil, errCertID
	}
	serial = new(big.Int).SetBytes(content)
	if certID(authorityKeyID, serial) != text {
		return nil, nil, errCertID // line breaks, stray bits, a zero byte too many or too few
	}
	return authorityKeyID, serial, nil
}
