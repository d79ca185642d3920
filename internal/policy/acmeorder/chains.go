package acmeorder

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// Preference selects and orders the chains that clients are offered for a certificate, the
// default first. The zero value offers the signer's chain first, and then the others.
type Preference struct {
	// Roots are the common names of the roots that chains may have, the preferred one
	// first; empty allows all.
	Roots []string
	// Overlap is how long a root has to have been published until it comes before
	// those that are published for longer.
	Overlap time.Duration
	// Published are the roots that the signer publishes.
	Published []v1alpha1.AcmePublishedRoot
}

// PreferenceOf returns which chains the endpoint of an order offers for certificates of
// a profile.
func PreferenceOf(e *v1alpha1.AcmeEndpoint, profile *v1alpha1.AcmeProfile) Preference {
	var p Preference
	for _, chain := range profile.Chains {
		p.Roots = append(p.Roots, chain.Root)
	}
	if profile.Overlap == nil || profile.Signer == nil {
		return p
	}
	p.Overlap = profile.Overlap.Duration
	for _, root := range e.Status.Roots {
		if root.SignerName == profile.Signer.Name {
			p.Published = append(p.Published, root)
		}
	}
	return p
}

// most returns how many chains to search for in addition to the first. The preferred chain
// may be found last.
func (p Preference) most() int {
	if len(p.Roots) > 0 || p.Overlap > 0 {
		return maxSteps
	}
	return maxAlternates
}

// rooted is a chain with facts about its root.
type rooted struct {
	certs     []*x509.Certificate
	name      string    // the common name of the root
	place     int       // among the preferred roots
	isKnown   bool      // whether its certificate is
	published time.Time // zero if it is not
	begins    time.Time
}

// order returns the chains that clients are offered, the default first. There is at
// least one.
func (p Preference) order(chains [][]*x509.Certificate, cas []*x509.Certificate, now time.Time) [][]*x509.Certificate {
	var all, listed []rooted
	for _, certs := range chains {
		c := p.rootOf(certs, cas)
		if all = append(all, c); c.place >= 0 {
			listed = append(listed, c)
		}
	}
	if len(listed) > 0 {
		all = listed
	}
	slices.SortStableFunc(all, func(a, b rooted) int { return p.compare(a, b, now) })
	ordered := make([][]*x509.Certificate, len(all))
	for i, c := range all {
		ordered[i] = c.certs
	}
	return ordered
}

// compare sorts chains to roots that have been published long enough first, in the order
// of the preferred roots. Among the other chains, those come first whose root has been
// published longest. An unknown root belongs to another signer that has cross-signed a CA
// of this one: hosts get it by other means.
func (p Preference) compare(a, b rooted, now time.Time) int {
	if p.Overlap <= 0 {
		return cmp.Compare(a.place, b.place)
	}
	late := func(c rooted) int {
		if c.isKnown && (c.published.IsZero() || now.Sub(c.published) < p.Overlap) {
			return 1
		}
		return 0
	}
	switch lateA, lateB := late(a), late(b); {
	case lateA != lateB || lateA == 0:
		return cmp.Or(cmp.Compare(lateA, lateB), cmp.Compare(a.place, b.place))
	case a.published.IsZero() != b.published.IsZero():
		return b.published.Compare(a.published) // the one that is not published comes last
	}
	return cmp.Or(a.published.Compare(b.published), a.begins.Compare(b.begins), cmp.Compare(a.place, b.place))
}

// rootOf finds out which root a chain leads to. Of several certificates of one root, the
// one counts that is published for longest.
func (p Preference) rootOf(certs, cas []*x509.Certificate) rooted {
	top := certs[len(certs)-1]
	c := rooted{certs: certs, name: top.Issuer.CommonName}
	c.place = slices.Index(p.Roots, c.name)
	for _, ca := range cas {
		if !isSelfSigned(ca) || !bytes.Equal(ca.RawSubject, top.RawIssuer) || top.CheckSignatureFrom(ca) != nil {
			continue
		}
		since := p.publishedSince(ca)
		if !c.isKnown || c.published.IsZero() && !since.IsZero() || !since.IsZero() && since.Before(c.published) {
			c.isKnown, c.published, c.begins = true, since, ca.NotBefore
		}
	}
	return c
}

// publishedSince returns since when a root has been published; zero if that is not known.
func (p Preference) publishedSince(root *x509.Certificate) time.Time {
	if len(p.Published) == 0 {
		return time.Time{}
	}
	fingerprint := pki.Fingerprint(root)
	for _, known := range p.Published {
		if known.Fingerprint == fingerprint {
			return known.Published.Time
		}
	}
	return time.Time{}
}

// maxPublishedRoots is the maximum number of roots in the status of an endpoint.
const maxPublishedRoots = 256

// maxCommonName is how long the common name of a root is that an endpoint keeps. RFC
// 5280 permits 64 characters.
const maxCommonName = 256

// PublishRoots adds to roots those that a signer publishes now. was are the roots that
// were known before: those stay what they are.
func PublishRoots(roots, was []v1alpha1.AcmePublishedRoot, signer string, published []*x509.Certificate, now time.Time) []v1alpha1.AcmePublishedRoot {
	of := func(fingerprint string) func(v1alpha1.AcmePublishedRoot) bool {
		return func(r v1alpha1.AcmePublishedRoot) bool { return r.SignerName == signer && r.Fingerprint == fingerprint }
	}
	for _, root := range published {
		fingerprint := pki.Fingerprint(root)
		if !isSelfSigned(root) || len(roots) == maxPublishedRoots || slices.ContainsFunc(roots, of(fingerprint)) {
			continue
		}
		if i := slices.IndexFunc(was, of(fingerprint)); i >= 0 {
			roots = append(roots, was[i])
			continue
		}
		name := root.Subject.CommonName
		if len(name) > maxCommonName {
			name = ""
		}
		roots = append(roots, v1alpha1.AcmePublishedRoot{SignerName: signer, Fingerprint: fingerprint, CommonName: name, Published: *whole(now)})
	}
	return roots
}

// UnknownRoots returns the preferred roots of a profile that no chain can be built to from
// the published certificates of a signer.
func UnknownRoots(profile *v1alpha1.AcmeProfile, published []*x509.Certificate) []string {
	var unknown []string
	for _, chain := range profile.Chains {
		leads := func(ca *x509.Certificate) bool { return ca.Issuer.CommonName == chain.Root }
		if !slices.ContainsFunc(published, leads) {
			unknown = append(unknown, chain.Root)
		}
	}
	return unknown
}
