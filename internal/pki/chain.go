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

// Chain is a certificate with its issuers, sorted and split the way in which
// cert-manager.io's objects show it.
type Chain struct {
	// Certificates has the certificate first, then its issuers, each issued by
	// the next, without the root. It is never empty.
	Certificates []*x509.Certificate
	// CA is the root; without one, the highest certificate that is not the
	// first. A self-signed CA alone is both, and a lone certificate that is
	// none has no CA: nil.
	CA *x509.Certificate
}

const (
	// maxChain bounds the certificates from which a chain is built: no verifier
	// follows as many.
	maxChain = 20
	// maxChecks bounds the signatures that are verified on the way, each of which
	// takes up to some milliseconds. A chain needs one for each certificate; more
	// are due to issuers of equal names.
	maxChecks = 2 * maxChain
)

// BuildChain makes a chain of certificates in any order; some may be there
// more than once. All must end up in one chain: a certificate that does not
// belong to it is an error, and so are two that both could be the issuer of a
// third. Of the certificates, it proves the links and nothing else.
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

// Authority joins a key with the chain of its CA. It is NewAuthority without the
// work of proving the links once more, and takes CAs without a subject.
func (c *Chain) Authority(key crypto.Signer) (*Authority, error) {
	whole := slices.Clone(c.Certificates)
	if c.CA != nil && c.CA != whole[len(whole)-1] {
		whole = append(whole, c.CA)
	}
	return newAuthority(whole, key, checkCAs)
}

// split says where the root is, if there is one.
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
	// roots are the CAs that have issued themselves. A self-signed end entity has
	// not.
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

// checkChainKey: signatures of outsized keys take long to verify, and far longer
// to make.
func checkChainKey(key crypto.PublicKey) error {
	if err := CheckPublicKey(key, 0); err != nil {
		return err
	}
	if rsaKey, ok := key.(*rsa.PublicKey); ok && rsaKey.N.BitLen() > MaxRSAKey {
		return fmt.Errorf("RSA key of %d bits is larger than the %d bits that a chain may have", rsaKey.N.BitLen(), MaxRSAKey)
	}
	return nil
}

// sort returns the certificates as one chain.
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
	// In a loop of issuers there is no first one, or no last.
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

// issuer returns who has issued a certificate; nil if nobody who is here has.
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

// issued compares the key identifiers first: where both are there they tell
// issuers of one name apart without the cost of a signature (RFC 5280 section
// 4.2.1.1).
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

// isRoot reports whether a certificate is that of a CA which has issued itself.
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
