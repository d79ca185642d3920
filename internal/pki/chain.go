package pki

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Chain is a certificate with its issuers, sorted and split as in the objects
// of cert-manager.io.
type Chain struct {
	// Certificates has the certificate first, then its issuers, each issued by
	// the next, without the root. It is never empty.
	Certificates []*x509.Certificate
	// CA is the root; without one, the highest certificate that is not the
	// first. A self-signed CA alone is both. For a single certificate that is
	// not a self-signed CA, it is nil.
	CA *x509.Certificate
}

const (
	// maxChain limits the certificates from which a chain is built: no verifier
	// follows that many.
	maxChain = 20
	// maxChecks limits the signatures that are verified to build a chain, each
	// of which takes up to some milliseconds. A chain needs one for each
	// certificate; more are only needed for issuers with equal names.
	maxChecks = 2 * maxChain
)

// BuildChain builds a chain from certificates in any order; duplicates are
// permitted. All must be in one chain: a certificate that does not belong to it
// is an error, and so are two that could both be the issuer of a third. It
// verifies only the links between the certificates.
func BuildChain(certs []*x509.Certificate) (*Chain, error) {
	if len(certs) > maxChain {
		return nil, fmt.Errorf("%d certificates are too many for a chain: the limit is %d", len(certs), maxChain)
	}
	b, err := newChainBuilder(certs)
	if err != nil {
		return nil, err
	}
	sorted, err := b.sort()
	if err != nil {
		return nil, err
	}
	return b.split(sorted), nil
}

// Authority joins a key with the chain of its CA. It is like NewAuthority, but
// does not verify the links again, and accepts CAs without a subject.
func (c *Chain) Authority(key crypto.Signer) (*Authority, error) {
	whole := slices.Clone(c.Certificates)
	if c.CA != nil && c.CA != whole[len(whole)-1] {
		whole = append(whole, c.CA)
	}
	return newAuthority(whole, key, checkCAs)
}

// split separates the root, if the chain has one.
func (b *chainBuilder) split(sorted []*x509.Certificate) *Chain {
	last := sorted[len(sorted)-1]
	switch alone := len(sorted) == 1; {
	case alone && b.roots[last]:
		return &Chain{Certificates: sorted, CA: last}
	case alone:
		return &Chain{Certificates: sorted}
	case b.roots[last]:
		return &Chain{Certificates: sorted[:len(sorted)-1], CA: last}
	}
	return &Chain{Certificates: sorted, CA: last}
}

type chainBuilder struct {
	certs     []*x509.Certificate            // each once, in the order given
	bySubject map[string][]*x509.Certificate // by the encoding of the subject
	// roots are the self-signed CAs. A self-signed end-entity certificate is
	// not one.
	roots  map[*x509.Certificate]bool
	checks int // signatures that have been verified
}

func newChainBuilder(certs []*x509.Certificate) (*chainBuilder, error) {
	b := &chainBuilder{bySubject: make(map[string][]*x509.Certificate), roots: make(map[*x509.Certificate]bool)}
	seen := make(map[string]bool)
	for i, cert := range certs {
		if seen[string(cert.Raw)] {
			continue
		}
		seen[string(cert.Raw)] = true
		if err := checkChainKey(cert.PublicKey); err != nil {
			return nil, fmt.Errorf("certificate %d (%s): %w", i+1, describe(cert), err)
		}
		b.certs = append(b.certs, cert)
		b.bySubject[string(cert.RawSubject)] = append(b.bySubject[string(cert.RawSubject)], cert)
	}
	if len(b.certs) == 0 {
		return nil, errors.New("no certificate")
	}
	return b, nil
}

// checkChainKey refuses outsized keys: their signatures take long to verify,
// and far longer to make.
func checkChainKey(key crypto.PublicKey) error {
	if err := CheckPublicKey(key, 0); err != nil {
		return err
	}
	if rsaKey, ok := key.(*rsa.PublicKey); ok && rsaKey.N.BitLen() > MaxRSAKey {
		return fmt.Errorf("RSA key of %d bits is larger than the %d bits that a chain may have", rsaKey.N.BitLen(), MaxRSAKey)
	}
	return nil
}

// sort returns the certificates in the order of one chain.
func (b *chainBuilder) sort() ([]*x509.Certificate, error) {
	issuers := make(map[*x509.Certificate]*x509.Certificate)
	issues := make(map[*x509.Certificate]bool)
	for _, cert := range b.certs {
		issuer, err := b.issuer(cert)
		if err != nil {
			return nil, err
		}
		if issuer != nil {
			issuers[cert], issues[issuer] = issuer, true
		}
	}
	sorted := make([]*x509.Certificate, 0, len(b.certs))
	// In a loop of issuers, no certificate is the first, or none is the last.
	for cert := b.first(issues); cert != nil && len(sorted) < len(b.certs); cert = issuers[cert] {
		sorted = append(sorted, cert)
	}
	if len(sorted) < len(b.certs) || issuers[sorted[len(sorted)-1]] != nil {
		return nil, fmt.Errorf("%d certificates do not form a chain: only %d of them lead from one to the next by their issuers", len(b.certs), len(sorted))
	}
	return sorted, nil
}

// first returns a certificate that has issued no other one.
func (b *chainBuilder) first(issues map[*x509.Certificate]bool) *x509.Certificate {
	for _, cert := range b.certs {
		if !issues[cert] {
			return cert
		}
	}
	return nil
}

// issuer returns the issuer of a certificate; nil if it is not among the
// certificates.
func (b *chainBuilder) issuer(cert *x509.Certificate) (*x509.Certificate, error) {
	root, err := b.isRoot(cert)
	if root || err != nil {
		return nil, err
	}
	var found *x509.Certificate
	for _, candidate := range b.bySubject[string(cert.RawIssuer)] {
		issued, err := b.issued(cert, candidate)
		switch {
		case err != nil:
			return nil, err
		case issued && found != nil:
			return nil, fmt.Errorf("certificates do not form a chain: %s and %s could both have issued %s",
				describe(found), describe(candidate), describe(cert))
		case issued:
			found = candidate
		}
	}
	return found, nil
}

// issued compares the key identifiers first: if both exist, they distinguish
// issuers with the same name without the cost of verifying a signature (RFC
// 5280 section 4.2.1.1).
func (b *chainBuilder) issued(cert, candidate *x509.Certificate) (bool, error) {
	if cert == candidate {
		return false, nil
	}
	if want, has := cert.AuthorityKeyId, candidate.SubjectKeyId; len(want) > 0 && len(has) > 0 && !bytes.Equal(want, has) {
		return false, nil
	}
	if err := b.check(); err != nil {
		return false, err
	}
	return cert.CheckSignatureFrom(candidate) == nil, nil
}

// isRoot reports whether a certificate is that of a self-signed CA.
func (b *chainBuilder) isRoot(cert *x509.Certificate) (bool, error) {
	if !bytes.Equal(cert.RawSubject, cert.RawIssuer) || checkCA(cert, 0) != nil {
		return false, nil
	}
	if err := b.check(); err != nil {
		return false, err
	}
	b.roots[cert] = isRoot(cert)
	return b.roots[cert], nil
}

// check counts a signature that is about to be verified.
func (b *chainBuilder) check() error {
	if b.checks == maxChecks {
		return errors.New("certificates do not form a chain: too many of them have the same names")
	}
	b.checks++
	return nil
}
