package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
)

// CertID returns the identifier of a certificate for renewal information (RFC
// 9773 section 4.1); "" if the certificate has no authority key identifier.
func CertID(cert *x509.Certificate) string {
	if len(cert.AuthorityKeyId) == 0 {
		return ""
	}
	var serial asn1.RawValue
	encoded, err := asn1.Marshal(cert.SerialNumber)
	if err != nil {
		return ""
	}
	if _, err := asn1.Unmarshal(encoded, &serial); err != nil {
		return ""
	}
	text := base64.RawURLEncoding
	return text.EncodeToString(cert.AuthorityKeyId) + "." + text.EncodeToString(serial.Bytes)
}
