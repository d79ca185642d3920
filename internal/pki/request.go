package pki

import (
	"crypto/rsa"
	"crypto/x509"
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

// ParseRequest returns the PKCS#10 certificate request in the first PEM block
// of data. Text before that block and everything after it are ignored.
// It does not verify the request's signature; VerifyRequest does.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != RequestBlockType {
		return nil, ErrRequestBlockType
	}
	return x509.ParseCertificateRequest(block.Bytes)
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
