package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The labels of PEM blocks (RFC 7468, and OpenSSL for the two older keys).
const (
	// CertificateBlockType holds one X.509 certificate.
	CertificateBlockType = "CERTIFICATE"
	// RequestBlockType holds a PKCS#10 request.
	RequestBlockType = "CERTIFICATE REQUEST"

	pkcs8BlockType          = "PRIVATE KEY"
	encryptedPKCS8BlockType = "ENCRYPTED PRIVATE KEY"
	pkcs1BlockType          = "RSA PRIVATE KEY"
	sec1BlockType           = "EC PRIVATE KEY"
)

// ParseCertificates returns the certificates in data, in their order. It is
// strict, as the certificates API is about status.certificate: at least one
// PEM block, nothing but CERTIFICATE blocks, no PEM headers. Text outside of
// blocks is ignored, but not a block that cannot be read.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	blocks, err := Blocks(data)
	if err != nil {
		return nil, err
	}
	return certificatesOf(blocks)
}

// ParseOneCertificate returns the certificate in data, which must be one PEM block and
// nothing else.
func ParseOneCertificate(data []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(data)
	if block == nil || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN ")) || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errNotOne
	}
	certs, err := parseCertificateBlock(block)
	if err != nil || len(certs) != 1 {
		return nil, errNotOne
	}
	return certs[0], nil
}

var errNotOne = errors.New("must be one certificate in PEM")

// ParseVisibleCertificates is ParseCertificates as the certificates API of
// Kubernetes reads status.certificate: it skips blocks that cannot be read. Only
// the validation of that API may use it.
func ParseVisibleCertificates(data []byte) ([]*x509.Certificate, error) {
	var blocks []*pem.Block
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, block)
	}
	return certificatesOf(blocks)
}

func certificatesOf(blocks []*pem.Block) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for _, block := range blocks {
		parsed, err := parseCertificateBlock(block)
		if err != nil {
			return nil, err
		}
		certs = append(certs, parsed...)
	}
	if len(certs) == 0 {
		return nil, errNoCertificate
	}
	return certs, nil
}

var errNoCertificate = errors.New("must contain at least one CERTIFICATE PEM block")

func parseCertificateBlock(block *pem.Block) ([]*x509.Certificate, error) {
	if block.Type != CertificateBlockType {
		return nil, fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
	}
	if len(block.Headers) != 0 {
		return nil, errors.New("no PEM block headers are permitted")
	}
	certs, err := parseCertificates(block.Bytes)
	if err != nil {
		return nil, err
	}
	if len(certs) == 0 {
		return nil, errors.New("found CERTIFICATE PEM block containing 0 certificates")
	}
	return certs, nil
}

// ParseBundle returns the certificates of a file. Such files also hold keys,
// requests, parameters and revocation lists: those blocks are skipped. Any other
// block, and one that cannot be read, is an error: it could hold a certificate.
func ParseBundle(data []byte) ([]*x509.Certificate, error) {
	blocks, err := certificateBlocks(data)
	if err != nil {
		return nil, err
	}
	for _, block := range blocks {
		block.Headers = nil // other programs write comments there
	}
	return certificatesOf(blocks)
}

// certificateBlocks returns the blocks of a file that have certificates.
func certificateBlocks(data []byte) ([]*pem.Block, error) {
	blocks, err := Blocks(data)
	if err != nil {
		return nil, err
	}
	var certificates []*pem.Block
	for _, block := range blocks {
		switch {
		case block.Type == CertificateBlockType:
			certificates = append(certificates, block)
		case block.Type == "TRUSTED CERTIFICATE", block.Type == "X509 CERTIFICATE":
			return nil, fmt.Errorf("the PEM block %q is not supported: convert it with openssl x509 to a block %q", block.Type, CertificateBlockType)
		case !slices.ContainsFunc(skippedLabels, func(end string) bool { return strings.HasSuffix(block.Type, end) }):
			return nil, fmt.Errorf("the PEM block %q is not supported in a file of certificates: only blocks %q are read", block.Type, CertificateBlockType)
		}
	}
	return certificates, nil
}

// skippedLabels are the ends of the labels of blocks that hold no certificates.
var skippedLabels = []string{"KEY", "REQUEST", "PARAMETERS", "CRL"}

// ParseChain is ParseBundle for a file of a CA and its issuers. It reads no more
// certificates than a chain can have.
func ParseChain(data []byte) ([]*x509.Certificate, error) {
	blocks, err := certificateBlocks(data)
	switch {
	case err != nil:
		return nil, err
	case len(blocks) > maxChain:
		return nil, fmt.Errorf("more than %d certificates are too many for a chain", maxChain)
	}
	return parseEach(blocks)
}

// ParseFirst returns the first certificate of a file. It does not parse further
// certificates, but their blocks must be complete.
func ParseFirst(data []byte) (*x509.Certificate, error) {
	blocks, err := certificateBlocks(data)
	if err != nil {
		return nil, err
	}
	certs, err := parseEach(blocks[:min(len(blocks), 1)])
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

func parseEach(blocks []*pem.Block) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for i, block := range blocks {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errNoCertificate
	}
	return certs, nil
}

// EncodeCertificates returns certificates as PEM blocks without headers.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: CertificateBlockType, Bytes: cert.Raw}))
	}
	return out.Bytes()
}

// EncodePrivateKey returns a key as unencrypted PKCS#8 in PEM (RFC 5958).
func EncodePrivateKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pkcs8BlockType, Bytes: der}), nil
}

// EncodeTraditionalPrivateKey returns a key, unencrypted, in the traditional
// form of its kind: PKCS#1 for RSA (RFC 8017 appendix A.1.2), SEC 1 for ECDSA
// (RFC 5915). Ed25519 has none and gets PKCS#8.
func EncodeTraditionalPrivateKey(key crypto.Signer) ([]byte, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: pkcs1BlockType, Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encoding private key: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: sec1BlockType, Bytes: der}), nil
	}
	return EncodePrivateKey(key)
}

// ParsePrivateKey returns the first private key in data: PKCS#8, PKCS#1 or
// SEC 1, not encrypted. Other blocks (EC PARAMETERS, certificates) are
// skipped. No error shows any part of the key.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	blocks, err := Blocks(data)
	if err != nil {
		return nil, err
	}
	for _, block := range blocks {
		if block.Type == encryptedPKCS8BlockType || block.Headers["DEK-Info"] != "" {
			return nil, errors.New("private key is encrypted: only unencrypted keys are supported")
		}
		if parse := privateKeyParser(block.Type); parse != nil {
			return parseSigner(parse, block)
		}
	}
	return nil, errors.New("no private key found: expected a PEM block PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY")
}

func privateKeyParser(blockType string) func(der []byte) (any, error) {
	switch blockType {
	case pkcs8BlockType:
		return x509.ParsePKCS8PrivateKey
	case pkcs1BlockType:
		return func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) }
	case sec1BlockType:
		return func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) }
	}
	return nil
}

// maxPrivateKey limits the size of private keys to parse, in bytes of DER. The
// largest RSA key whose signatures are verified, of 16,384 bits, has 9.4 kB; a
// key of the size of a Secret takes minutes to check.
const maxPrivateKey = 10_000

func parseSigner(parse func([]byte) (any, error), block *pem.Block) (crypto.Signer, error) {
	if len(block.Bytes) > maxPrivateKey {
		return nil, fmt.Errorf("private key of %d bytes is larger than the supported %d bytes", len(block.Bytes), maxPrivateKey)
	}
	key, err := parse(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", block.Type, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key of type %T cannot sign", key)
	}
	return signer, nil
}
