package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Sign uses the CA's key. The certificate it returns is the linted one, to
// the byte, and its signature has been verified with the CA's certificate.
// Errors come from the key's custodian and say nothing about the request.
func (l *Linted) Sign(rand io.Reader) (*x509.Certificate, error) {
	if l.authority == nil {
		return nil, errors.New("certificate has not been linted")
	}
	ca, key := l.authority.ca, l.authority.key
	der, err := x509.CreateCertificate(rand, l.template, ca, l.template.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back signed certificate: %w", err)
	}
	if !bytes.Equal(cert.RawTBSCertificate, l.tbs) {
		return nil, errors.New("signed certificate differs from the linted one")
	}
	if err := ca.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil {
		return nil, fmt.Errorf("verifying fresh signature: %w", err)
	}
	return cert, nil
}

// Fingerprint returns the SHA-256 hash of a certificate in hexadecimal, as
// openssl x509 -fingerprint -sha256 shows it but for the colons.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}
