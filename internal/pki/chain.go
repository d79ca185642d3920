package pki

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
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
	// maxChecks limits the signatures that are verified to build a chain; each takes up to
	// some milliseconds. A chain needs one for each certificate, and more only for issuers
	// with equal names.
	maxChecks = 2 * maxChain
)

// BuildChain builds a chain from certificates in any order; duplicates are permitted. CAs
// may be cross-signed or renewed: certificates form a graph (RFC 4158), in which it finds a
// path from the lowest one. It prefers paths whose path lengths hold, then those up to a
// root, then those that are valid for longest, then short ones. Of a CA with several
// certificates, it uses one only. A certificate that no path leads to is an error. It
// verifies only the links between the certificates.
func BuildChain(certs []*x509.Certificate) (*Chain, error) {
	if len(certs) > maxChain {
		return nil, fmt.Errorf("%d certificates are too many for a chain: the limit is %d", len(certs), maxChain)
	}
	b, err := newChainBuilder(certs)
	if err != nil {
		return nil, err
	}
	path, err := b.path()
	if err != nil {
		return nil, err
	}
	return b.split(path), nil
}

// IsTwin reports whether two certificates are of one CA: of the same name and key,
// as after a renewal, or if several CAs have signed it.
func IsTwin(a, b *x509.Certificate) bool {
	return a.IsCA && b.IsCA && bytes.Equal(a.RawSubject, b.RawSubject) && bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo)
}

// Authority joins a key with the chain of its CA. It is like NewAuthority, but
// does not verify the links again, and accepts CAs without a subject.
func (c *Chain) Authority(key crypto.Signer) (*Authority, error) {
	return newAuthority(c.Whole(), key, checkCAs)
}

// Whole returns the certificates with the root.
func (c *Chain) Whole() []*x509.Certificate {
	whole := slices.Clone(c.Certificates)
	if c.CA != nil && c.CA != whole[len(whole)-1] {
		whole = append(whole, c.CA)
	}
	return whole
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
	// issuers has the issuers of each certificate; a root has none.
	issuers map[*x509.Certificate][]*x509.Certificate
	// roots are the self-signed CAs. A self-signed end-entity certificate is
	// not one.
	roots map[*x509.Certificate]bool
	// verified has the results for a certificate and a key, and their number is
	// limited.
	verified map[signedBy]error
	// failed is the first reason why a CA that a certificate names as its issuer
	// does not count as one.
	failed error
}

// signedBy is a certificate and the encoding of a key that may have signed it.
type signedBy struct {
	cert *x509.Certificate
	key  string
}

func newChainBuilder(certs []*x509.Certificate) (*chainBuilder, error) {
	b := &chainBuilder{
		bySubject: make(map[string][]*x509.Certificate), roots: make(map[*x509.Certificate]bool),
		issuers: make(map[*x509.Certificate][]*x509.Certificate), verified: make(map[signedBy]error),
	}
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

// path returns the best path through the certificates.
func (b *chainBuilder) path() ([]*x509.Certificate, error) {
	for _, cert := range b.certs {
		if err := b.findIssuers(cert); err != nil {
			return nil, err
		}
	}
	var best []*x509.Certificate
	reached := 0
	for _, start := range b.certs {
		if b.issuedAny(start) {
			continue
		}
		n := b.reach(start)
		if reached == 0 {
			reached = n
		}
		if n < len(b.certs) {
			continue
		}
		if path := b.bestFrom(start); best == nil || b.isBetter(path, best) {
			best = path
		}
	}
	switch {
	case best != nil:
		return best, nil
	case b.failed != nil:
		return nil, fmt.Errorf("%d certificates do not form a chain: %w", len(b.certs), b.failed)
	}
	return nil, fmt.Errorf("%d certificates do not form a chain: only %d of them lead from one to the next by their issuers", len(b.certs), reached)
}

func (b *chainBuilder) issuedAny(cert *x509.Certificate) bool {
	return slices.ContainsFunc(b.certs, func(other *x509.Certificate) bool { return slices.Contains(b.issuers[other], cert) })
}

// reach returns the number of certificates that belong to a path from start: those on the
// way, and other certificates of the same CAs.
func (b *chainBuilder) reach(start *x509.Certificate) int {
	found := []*x509.Certificate{start}
	for i := 0; i < len(found); i++ {
		for _, cert := range b.certs {
			if !slices.Contains(found, cert) && (IsTwin(found[i], cert) || slices.Contains(b.issuers[found[i]], cert)) {
				found = append(found, cert)
			}
		}
	}
	return len(found)
}

// maxPaths limits the paths that are compared; the shortest ones come first.
const maxPaths = 1000

// bestFrom returns the best path that begins with start.
func (b *chainBuilder) bestFrom(start *x509.Certificate) []*x509.Certificate {
	var best []*x509.Certificate
	paths := [][]*x509.Certificate{{start}}
	for i := 0; i < len(paths); i++ {
		path := paths[i]
		whole := true
		for _, issuer := range b.issuers[path[len(path)-1]] {
			if slices.Contains(path, issuer) {
				continue
			}
			whole = false
			if len(paths) < maxPaths {
				paths = append(paths, append(slices.Clone(path), issuer))
			}
		}
		if whole && (best == nil || b.isBetter(path, best)) {
			best = path
		}
	}
	if best == nil {
		return paths[len(paths)-1]
	}
	return best
}

// isBetter reports whether verifiers rather accept path than other.
func (b *chainBuilder) isBetter(path, other []*x509.Certificate) bool {
	for _, has := range []func([]*x509.Certificate) bool{lengthsHold, b.hasRoot} {
		if has(path) != has(other) {
			return has(path)
		}
	}
	if a, b := end(path), end(other); !a.Equal(b) {
		return a.After(b)
	}
	return len(path) < len(other)
}

// lengthsHold reports whether the path lengths of CAs permit the CAs below them
// (RFC 5280 section 4.2.1.9).
func lengthsHold(path []*x509.Certificate) bool {
	if !path[0].IsCA {
		path = path[1:]
	}
	return checkCAs(path) == nil
}

func (b *chainBuilder) hasRoot(path []*x509.Certificate) bool { return b.roots[path[len(path)-1]] }

// end returns when the first certificate of a path expires.
func end(path []*x509.Certificate) time.Time {
	return slices.MinFunc(path, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

// findIssuers finds the issuers of a certificate.
func (b *chainBuilder) findIssuers(cert *x509.Certificate) error {
	root, err := b.isRoot(cert)
	if root || err != nil {
		return err
	}
	var failed error
	for _, candidate := range b.bySubject[string(cert.RawIssuer)] {
		issued, err := b.issued(cert, candidate)
		switch {
		case errors.Is(err, errTooManyChecks):
			return err
		case err != nil && failed == nil:
			failed = err
		case issued:
			b.issuers[cert] = append(b.issuers[cert], candidate)
		}
	}
	if len(b.issuers[cert]) == 0 && b.failed == nil {
		b.failed = failed
	}
	return nil
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
	if err := checkCA(candidate, 0); err != nil {
		return false, fmt.Errorf("%s, which is the issuer of %s, %w", describe(candidate), describe(cert), err)
	}
	err := b.verify(cert, candidate)
	return err == nil, err
}

var errTooManyChecks = errors.New("certificates do not form a chain: too many of them have the same names")

// verify verifies a signature, once for each key.
func (b *chainBuilder) verify(cert, by *x509.Certificate) error {
	pair := signedBy{cert, string(by.RawSubjectPublicKeyInfo)}
	err, known := b.verified[pair]
	switch {
	case known:
		return err
	case len(b.verified) == maxChecks:
		return errTooManyChecks
	}
	if err = cert.CheckSignatureFrom(by); err != nil {
		err = explainSignature(cert, by, err)
	}
	b.verified[pair] = err
	return err
}

// explainSignature returns why a certificate is not taken as issued by another
// one with the name of its issuer.
func explainSignature(cert, by *x509.Certificate, err error) error {
	var insecure x509.InsecureAlgorithmError
	switch {
	case errors.As(err, &insecure):
		return fmt.Errorf("%s is signed with %s, which is not accepted: its issuer has to sign it with SHA-256 or better", describe(cert), cert.SignatureAlgorithm)
	case errors.Is(err, x509.ErrUnsupportedAlgorithm):
		return fmt.Errorf("%s is signed with an algorithm that is not supported (%s)", describe(cert), cert.SignatureAlgorithm)
	}
	return fmt.Errorf("%s was not signed with the key of %s, which has the name of its issuer: %w", describe(cert), describe(by), err)
}

// isRoot reports whether a certificate belongs to a self-signed CA.
func (b *chainBuilder) isRoot(cert *x509.Certificate) (bool, error) {
	if !bytes.Equal(cert.RawSubject, cert.RawIssuer) || checkCA(cert, 0) != nil {
		return false, nil
	}
	if len(b.verified) == maxChecks {
		return false, errTooManyChecks
	}
	var err error
	if b.roots[cert] = isRoot(cert); !b.roots[cert] {
		err = fmt.Errorf("%s names itself as its issuer, but was signed with another key", describe(cert))
	}
	b.verified[signedBy{cert, string(cert.RawSubjectPublicKeyInfo)}] = err
	return b.roots[cert], nil
}
