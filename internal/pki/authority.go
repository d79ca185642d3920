package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Authority is a certification authority: a CA certificate, the certificates that link it to
// its root, and the key that signs. It is verified for consistency when it is created and
// never changes, so it is safe for concurrent use if its key is.
//
// Only one function uses the key: signingKey.sign. Linted.Sign and LintedList.Sign call it and
// record what it has signed. Code that signs other content with an Authority, such as OCSP
// responses, belongs in a method next to them that does the same.
type Authority struct {
	chain  []*x509.Certificate // the CA first; each is issued by the next; no root
	ca     *x509.Certificate
	anchor *x509.Certificate
	room   int // how many CAs may be below this one; unlimited if negative
	key    signingKey
	proof  proof
}

// NewAuthority joins a CA's key with its chain: the CA's own certificate, then
// its issuers, up to the root or short of it. A CA with several certificates, as
// while a root is replaced, may come with all of them. An expired CA is not refused:
// expiry is checked when a certificate is issued.
func NewAuthority(chain []*x509.Certificate, key crypto.Signer) (*Authority, error) {
	return newAuthority(inOrder(chain), key, checkChain)
}

// inOrder returns the path from the first certificate if the certificates are not already in
// order, such as those of a CA that several roots have signed. If no path exists, it returns
// the chain unchanged.
func inOrder(chain []*x509.Certificate) []*x509.Certificate {
	if len(chain) == 0 || checkChain(chain) == nil {
		return chain
	}
	built, err := BuildChain(chain)
	if err != nil || !built.Certificates[0].Equal(chain[0]) && !IsTwin(built.Certificates[0], chain[0]) {
		return chain
	}
	return built.Whole()
}

// ParseAuthority is NewAuthority for a chain and a key in PEM. Its errors show
// nothing of the key.
func ParseAuthority(chainPEM, keyPEM []byte) (*Authority, error) {
	chain, key, err := parsePair(chainPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	return NewAuthority(chain, key)
}

// parsePair reads the certificates of a CA, at least one, and its key.
func parsePair(chainPEM, keyPEM []byte) ([]*x509.Certificate, crypto.Signer, error) {
	chain, err := ParseBundle(chainPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the CA certificate: %w", err)
	}
	key, err := ParsePrivateKey(keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the CA's key: %w", err)
	}
	return chain, key, nil
}

func newAuthority(chain []*x509.Certificate, key crypto.Signer, check func([]*x509.Certificate) error) (*Authority, error) {
	if len(chain) == 0 {
		return nil, errors.New("no CA certificate")
	}
	if len(chain) > maxChain {
		return nil, fmt.Errorf("%d certificates are too many for a chain: the limit is %d", len(chain), maxChain)
	}
	if !SameKey(key.Public(), chain[0].PublicKey) {
		return nil, fmt.Errorf("private key does not belong to the CA certificate of %s", describe(chain[0]))
	}
	if err := check(chain); err != nil {
		return nil, err
	}
	proof, err := newProof(chain)
	if err != nil {
		return nil, err
	}
	return &Authority{
		chain: withoutRoot(chain), ca: chain[0], anchor: chain[len(chain)-1], room: room(chain), key: signingKey{key, chain[0]}, proof: proof,
	}, nil
}

// room returns how many CAs may follow the first of a chain: each CA above
// counts those between itself and the end entity (RFC 5280 section 4.2.1.9).
func room(chain []*x509.Certificate) int {
	room := -1
	for depth, ca := range chain {
		if left := ca.MaxPathLen - depth; hasPathLength(ca) && (room < 0 || left < room) {
			room = left
		}
	}
	return room
}

func hasPathLength(ca *x509.Certificate) bool { return ca.MaxPathLen > 0 || ca.MaxPathLenZero }

// Certificate returns the CA's own certificate. It must not be modified.
func (a *Authority) Certificate() *x509.Certificate { return a.ca }

// Validity returns the span in which the CA certificate is valid.
func (a *Authority) Validity() Validity {
	return Validity{NotBefore: a.ca.NotBefore, NotAfter: a.ca.NotAfter}
}

// Anchor returns the certificate that a verifier must trust to verify certificates of the
// CA: the root, or the highest known CA below it. It must not be modified.
func (a *Authority) Anchor() *x509.Certificate { return a.anchor }

// Chain returns leaf followed by the CA's chain without the root, so that a
// verifier that has only the root can verify it. It returns only leaf if the CA
// is itself a root.
func (a *Authority) Chain(leaf *x509.Certificate) []*x509.Certificate {
	return append([]*x509.Certificate{leaf}, a.chain...)
}

func withoutRoot(chain []*x509.Certificate) []*x509.Certificate {
	last := len(chain) - 1
	if isRoot(chain[last]) {
		return slices.Clone(chain[:last])
	}
	return slices.Clone(chain)
}

func checkChain(chain []*x509.Certificate) error {
	if err := checkCAs(chain); err != nil {
		return err
	}
	for i, ca := range chain {
		if err := hasName(ca); err != nil {
			return fmt.Errorf("certificate %d (%s): %w", i+1, describe(ca), err)
		}
	}
	for i, ca := range chain[:len(chain)-1] {
		if err := checkLink(ca, chain[i+1]); err != nil {
			return fmt.Errorf("certificate %d (%s): %w", i+1, describe(ca), err)
		}
	}
	return nil
}

func checkCAs(chain []*x509.Certificate) error {
	for i, ca := range chain {
		if err := checkCA(ca, i); err != nil {
			return fmt.Errorf("certificate %d (%s): %w", i+1, describe(ca), err)
		}
	}
	return nil
}

// checkCA checks a CA certificate by RFC 5280 section 6.1.4 (k) to (n). depth
// is the number of other CAs between it and the end-entity certificate. A key
// usage is required only by section 4.2.1.3, and CA certificates made with
// plain openssl have none: its absence allows every usage.
func checkCA(ca *x509.Certificate, depth int) error {
	switch {
	case !ca.BasicConstraintsValid || !ca.IsCA:
		return errors.New("is not a CA certificate: its basic constraints do not set CA")
	case ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("must not sign certificates: its key usage lacks keyCertSign")
	case hasPathLength(ca) && depth > ca.MaxPathLen:
		return fmt.Errorf("allows %d CAs below itself, but the chain has %d", ca.MaxPathLen, depth)
	}
	return nil
}

// hasName returns an error if a CA has no subject (RFC 5280 section 4.1.2.6).
// Issuers of cert-manager.io accept CAs without a subject: most verifiers do
// too.
func hasName(ca *x509.Certificate) error {
	if len(ca.RawSubject) <= len(emptyName) {
		return errors.New("has no subject, which a CA needs (RFC 5280 section 4.1.2.6)")
	}
	return nil
}

func checkLink(ca, issuer *x509.Certificate) error {
	if isRoot(ca) {
		return errors.New("is a root, so nothing may follow it")
	}
	if !bytes.Equal(ca.RawIssuer, issuer.RawSubject) {
		return fmt.Errorf("is issued by %q, but the certificate that follows it is %q", ca.Issuer, issuer.Subject)
	}
	if err := ca.CheckSignatureFrom(issuer); err != nil {
		return fmt.Errorf("verifying with the certificate that follows it: %w", err)
	}
	return nil
}

// isRoot reports whether a certificate is self-signed. A self-issued one that
// another key has signed (a key rollover, RFC 5280 section 3.2) is not.
// Verifiers do not rely on a root's signature, so old signatures with SHA-1 are
// accepted here.
func isRoot(cert *x509.Certificate) bool {
	return bytes.Equal(cert.RawSubject, cert.RawIssuer) &&
		cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil
}

// emptyName is the encoding of a distinguished name without attributes.
var emptyName = [...]byte{0x30, 0x00}

// describe returns the name of a certificate for errors.
func describe(cert *x509.Certificate) string {
	return fmt.Sprintf("%q, serial %x", cert.Subject, cert.SerialNumber)
}
