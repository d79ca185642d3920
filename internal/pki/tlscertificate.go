package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
)

// TLSCertificate returns a chain, which must not be empty, and the key of its
// first certificate as connections need them.
func TLSCertificate(chain []*x509.Certificate, key crypto.PrivateKey) *tls.Certificate {
	certificate := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, cert := range chain {
		certificate.Certificate = append(certificate.Certificate, cert.Raw)
	}
	return certificate
}
