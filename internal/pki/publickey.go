package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// publicKeyBlockType holds a SubjectPublicKeyInfo (RFC 7468 section 13).
const publicKeyBlockType = "PUBLIC KEY"

// ParsePublicKey returns the public key of the first PEM block in data that has one: a
// certificate, a request, a public key or an unencrypted private key. Other blocks are
// skipped. No error shows any part of a private key.
func ParsePublicKey(data []byte) (crypto.PublicKey, error) {
	blocks, err := Blocks(data)
	if err != nil {
		return nil, err
	}
	encrypted := false
	for _, block := range blocks {
		if block.Type == encryptedPKCS8BlockType || block.Headers["DEK-Info"] != "" {
			encrypted = true // a certificate may follow
			continue
		}
		parse := publicKeyParser(block)
		if parse == nil {
			continue
		}
		key, err := parse()
		if err != nil {
			return nil, fmt.Errorf("the block %s: %w", block.Type, err)
		}
		if _, err := x509.MarshalPKIXPublicKey(key); err != nil { // it would have no fingerprint
			return nil, fmt.Errorf("the block %s: the key is of an unsupported type: want RSA, ECDSA or Ed25519", block.Type)
		}
		return key, nil
	}
	if encrypted {
		return nil, errors.New("the private key is encrypted: give its public key, as 'openssl pkey -pubout' writes it, or a certificate with it")
	}
	return nil, errors.New("no key was found: want a private key, public key, certificate request or certificate in PEM")
}

// publicKeyParser returns what parses the public key of a block; nil if it has none.
func publicKeyParser(block *pem.Block) func() (crypto.PublicKey, error) {
	switch {
	case block.Type == CertificateBlockType:
		return func() (crypto.PublicKey, error) {
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, err
			}
			return cert.PublicKey, nil
		}
	case strings.HasSuffix(block.Type, RequestBlockType): // older programs write NEW before it
		return func() (crypto.PublicKey, error) {
			request, err := ParseRequestDER(block.Bytes)
			if err != nil {
				return nil, err
			}
			return request.PublicKey, nil
		}
	case block.Type == publicKeyBlockType:
		return func() (crypto.PublicKey, error) { return x509.ParsePKIXPublicKey(block.Bytes) }
	}
	parse := privateKeyParser(block.Type)
	if parse == nil {
		return nil
	}
	return func() (crypto.PublicKey, error) {
		key, err := parseSigner(parse, block)
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	}
}
