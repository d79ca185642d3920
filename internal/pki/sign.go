package pki

import (
	"crypto"
	"crypto/sha256"
	_ "crypto/sha512" // for the curves P-384 and P-521
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Sign uses the CA's key, once. The certificate it returns is the linted one,
// to the byte, and its signature has been verified with the CA's certificate.
// Errors come from the key's custodian and say nothing about the request.
func (l *Linted) Sign(rand io.Reader) (*x509.Certificate, error) {
	if l.authority == nil {
		return nil, errors.New("certificate has not been linted")
	}
	ca, key := l.authority.ca, l.authority.key
	signature, err := crypto.SignMessage(key, rand, l.draft.RawTBSCertificate, digestFor(l.draft.SignatureAlgorithm))
	if err != nil {
		return nil, fmt.Errorf("signing certificate: %w", err)
	}
	der, err := withSignature(l.draft.Raw, signature)
	if err != nil {
		return nil, fmt.Errorf("encoding signed certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back signed certificate: %w", err)
	}
	if err := ca.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil {
		return nil, fmt.Errorf("verifying fresh signature: %w", err)
	}
	return cert, nil
}

// withSignature returns the certificate draft with another signature under
// the same content (RFC 5280 section 4.1).
func withSignature(draft, signature []byte) ([]byte, error) {
	var certificate struct {
		Content, Algorithm asn1.RawValue
		Signature          asn1.BitString
	}
	if _, err := asn1.Unmarshal(draft, &certificate); err != nil {
		return nil, err
	}
	certificate.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	return asn1.Marshal(certificate)
}

// digestFor is the hash of a signature algorithm; Ed25519 has none.
func digestFor(algorithm x509.SignatureAlgorithm) crypto.Hash {
	switch algorithm {
	case x509.SHA256WithRSA, x509.ECDSAWithSHA256:
		return crypto.SHA256
	case x509.ECDSAWithSHA384:
		return crypto.SHA384
	case x509.ECDSAWithSHA512:
		return crypto.SHA512
	}
	return crypto.Hash(0)
}

// Fingerprint returns the SHA-256 hash of a certificate in hexadecimal, as
// openssl x509 -fingerprint -sha256 shows it but for the colons.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}
