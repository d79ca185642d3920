package acmeorder

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// The bounds of the search for other chains of a certificate.
const (
	// maxAlternates is the number of chains that an order has in addition to the first.
	maxAlternates = 4
	// maxDepth is the number of CAs in the longest chain.
	maxDepth = 8
	// maxSteps is how many certificates of CAs are tried.
	maxSteps = 64
)

// alternates returns the other chains of a certificate to roots (RFC 8555 section 7.4.2):
// those with a CA that another one has cross-signed, or without it. first is the chain
// that clients get by default; cas are the known certificates of CAs, including roots. It
// returns at most most chains.
func alternates(first, cas []*x509.Certificate, w pki.Wanted, now time.Time, most int) [][]*x509.Certificate {
	s := &search{cas: inForce(cas, now), seen: [][]*x509.Certificate{withoutRoots(first)}}
	s.from(first[:1:1])
	var others [][]*x509.Certificate
	for _, path := range s.seen[1:] {
		if _, err := pki.AcceptPath(path, w, now); err != nil || len(others) >= most {
			continue
		}
		if other := withIssuer(path, s.cas); len(pki.EncodeCertificates(other...)) <= maxChain {
			others = append(others, other)
		}
	}
	return others
}

// search looks for chains by the names of CAs. Whether they are chains is another matter.
type search struct {
	cas   []*x509.Certificate
	steps int
	// seen are the chains without their roots, the first first.
	seen [][]*x509.Certificate
}

// from follows the CAs above a path. A path ends where a root is known, or no CA is.
func (s *search) from(path []*x509.Certificate) {
	last, root, circle := path[len(path)-1], false, false
	var above []*x509.Certificate
	for _, ca := range s.cas {
		switch {
		case !bytes.Equal(ca.RawSubject, last.RawIssuer):
		case isCircle(path, ca):
			circle = true
		case isSelfSigned(ca):
			root = true
		default:
			above = append(above, ca)
		}
	}
	if root || len(above) == 0 && !circle {
		s.add(path)
	}
	for _, ca := range above {
		if s.steps++; s.steps <= maxSteps && len(path) <= maxDepth {
			s.from(append(slices.Clip(path), ca))
		}
	}
}

func (s *search) add(path []*x509.Certificate) {
	same := func(other []*x509.Certificate) bool { return slices.EqualFunc(other, path, (*x509.Certificate).Equal) }
	if !slices.ContainsFunc(s.seen, same) {
		s.seen = append(s.seen, slices.Clone(path))
	}
}

// isCircle reports whether a path has a certificate of the same CA already.
func isCircle(path []*x509.Certificate, ca *x509.Certificate) bool {
	return slices.ContainsFunc(path, func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, ca.RawSubject) && bytes.Equal(c.RawSubjectPublicKeyInfo, ca.RawSubjectPublicKeyInfo)
	})
}

func isSelfSigned(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }

func withoutRoots(path []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(path), isSelfSigned)
}

// inForce returns the certificates of CAs that are valid now, each once.
func inForce(cas []*x509.Certificate, now time.Time) []*x509.Certificate {
	var valid []*x509.Certificate
	for _, ca := range cas {
		if ca.IsCA && !now.Before(ca.NotBefore) && now.Before(ca.NotAfter) && !slices.ContainsFunc(valid, ca.Equal) {
			valid = append(valid, ca)
		}
	}
	return valid
}

// Chains returns the chains of an order in PEM, the default first.
func Chains(o *order) []string {
	c := o.Status.Certificate
	if c == nil || c.Chain == "" {
		return nil
	}
	leaf, _, _ := strings.Cut(c.Chain, endOfCertificate)
	chains := []string{c.Chain}
	for _, above := range c.Alternates {
		chains = append(chains, leaf+endOfCertificate+"\n"+above)
	}
	return chains
}

const endOfCertificate = "-----END CERTIFICATE-----"
