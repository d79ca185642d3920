package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // for the curves P-384 and P-521
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Sign signs with the issuer's key, once, and records the certificate. The returned
// certificate is the linted one, byte for byte, and its signature has been verified with the
// issuer's certificate. Sign returns an error of why.Permit unchanged. Other errors come
// from the key or the recorder, not from the request.
func (l *Linted) Sign(ctx context.Context, by Issuing, why Purpose) (*x509.Certificate, error) {
	switch {
	case l.draft == nil:
		return nil, errors.New("certificate has not been linted")
	case by.Record == nil:
		return nil, errors.New("certificates must be recorded, but no recorder is set")
	}
	if by.Refuse != nil {
		if err := by.Refuse(l.key.public); err != nil {
			return nil, err
		}
	}
	if why.Permit != nil {
		if err := why.Permit(l.draft); err != nil {
			return nil, err
		}
	}
	cert, err := l.sign(by.Rand)
	if err != nil {
		return nil, err
	}
	if err := by.Record(ctx, cert, why); err != nil {
		return nil, fmt.Errorf("recording the certificate: %w", err)
	}
	return cert, nil
}

func (l *Linted) sign(rand io.Reader) (*x509.Certificate, error) {
	signature, err := l.key.sign(rand, l.draft.RawTBSCertificate, l.draft.SignatureAlgorithm)
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
	signedLast.keep(cert.Raw, cert)
	return cert, nil
}

// signingKey is a key, and a certificate with its public half.
type signingKey struct {
	private crypto.Signer
	public  *x509.Certificate
}

// sign signs content, and verifies the signature.
func (k signingKey) sign(rand io.Reader, content []byte, algorithm x509.SignatureAlgorithm) ([]byte, error) {
	signature, err := crypto.SignMessage(k.private, rand, content, digestFor(algorithm))
	if err != nil {
		return nil, err
	}
	if err := k.public.CheckSignature(algorithm, content, signature); err != nil {
		return nil, fmt.Errorf("verifying fresh signature: %w", err)
	}
	return signature, nil
}

// SignatureAlgorithm returns the algorithm for signing certificates with a key,
// with a hash as strong as the key: for RSA keys by NIST SP 800-57 part 1, for
// ECDSA keys by their curve. RSA keys of less than 2048 bits are refused.
func SignatureAlgorithm(key crypto.PublicKey) (x509.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return rsaAlgorithm(key.N.BitLen())
	case *ecdsa.PublicKey:
		return ecdsaAlgorithm(key.Curve)
	case ed25519.PublicKey:
		return x509.PureEd25519, nil
	}
	return x509.UnknownSignatureAlgorithm, fmt.Errorf("key of type %T cannot sign certificates: use RSA, ECDSA or Ed25519", key)
}

func rsaAlgorithm(bits int) (x509.SignatureAlgorithm, error) {
	switch {
	case bits >= 4096:
		return x509.SHA512WithRSA, nil
	case bits >= 3072:
		return x509.SHA384WithRSA, nil
	case bits >= 2048:
		return x509.SHA256WithRSA, nil
	}
	return x509.UnknownSignatureAlgorithm, fmt.Errorf("RSA key of %d bits is too small to sign certificates: use 2048 bits or more", bits)
}

func ecdsaAlgorithm(curve elliptic.Curve) (x509.SignatureAlgorithm, error) {
	switch curve {
	case elliptic.P256():
		return x509.ECDSAWithSHA256, nil
	case elliptic.P384():
		return x509.ECDSAWithSHA384, nil
	case elliptic.P521():
		return x509.ECDSAWithSHA512, nil
	}
	return x509.UnknownSignatureAlgorithm, fmt.Errorf("elliptic curve %s is not supported for signing: use P-256, P-384 or P-521", curve.Params().Name)
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

// digestFor returns the hash of a signature algorithm; Ed25519 has none.
func digestFor(algorithm x509.SignatureAlgorithm) crypto.Hash {
	switch algorithm {
	case x509.SHA256WithRSA, x509.ECDSAWithSHA256:
		return crypto.SHA256
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384:
		return crypto.SHA384
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512:
		return crypto.SHA512
	}
	return crypto.Hash(0)
}

// Fingerprint returns the SHA-256 hash of a certificate in hexadecimal, as
// openssl x509 -fingerprint -sha256 prints it, but without the colons.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// KeyFingerprint returns the SHA-256 hash of a public key, as a certificate would
// have it (SubjectPublicKeyInfo), in hexadecimal. Of a key that no certificate can
// have, it is the hash of nothing.
func KeyFingerprint(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		der = nil
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// LogFacts returns what identifies a certificate in logs: pairs of a name and a
// value.
func LogFacts(cert *x509.Certificate) []any {
	return []any{
		"subject", cert.Subject.String(),
		"serial", cert.SerialNumber.Text(16),
		"sha256", Fingerprint(cert),
		"notBefore", cert.NotBefore,
		"notAfter", cert.NotAfter,
	}
}
