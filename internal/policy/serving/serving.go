// Package serving decides when a server that issues its own certificate renews
// it, and when the CA of the certificate is replaced.
package serving

import (
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

// The lifetimes of CAs, unless a Server has others, and of certificates. A CA's
// successor is published to clients for a day before it signs. A certificate is
// renewed after two thirds of its lifetime.
const (
	caLifetime   = 365 * 24 * time.Hour
	propagation  = 24 * time.Hour
	leafLifetime = 90 * 24 * time.Hour
	leafRenewal  = leafLifetime / 3 // before its end
)

// State is a serving certificate with its CA. The zero State is the state of a
// server that has nothing yet.
type State struct {
	// ca is the CA of the certificate. Certificates of its former CAs may still
	// be in use.
	ca   rotation.CA
	leaf leaf
}

// leaf is a serving certificate; without a chain it does not exist.
type leaf struct {
	chain []*x509.Certificate
	key   crypto.Signer
}

// Certificate returns the certificate to serve; nil if there is none yet.
func (s State) Certificate() *tls.Certificate {
	if len(s.leaf.chain) == 0 {
		return nil
	}
	return pki.TLSCertificate(s.leaf.chain, s.leaf.key)
}

// Bundle returns the CAs that clients must trust, in PEM: the CA that signs;
// the next one, so that clients have it before it signs; and the former ones,
// until they have expired.
func (s State) Bundle() []byte { return pki.EncodeCertificates(s.Roots()...) }

// Roots returns the CAs in the bundle, the one that signs first.
func (s State) Roots() []*x509.Certificate { return s.ca.Certificates() }

// Server is the subject of a serving certificate.
type Server struct {
	// Name is the name of the CA and of the certificate.
	Name string
	// Hosts are the DNS names and IP addresses under which it is reached.
	Hosts []string
	// CALifetime is the lifetime of a CA; zero means a year. Propagation is how long its
	// successor is published before it signs; zero means a day.
	CALifetime, Propagation time.Duration
}

// Next returns the state that is needed now, and when to call it again. changed
// reports whether that state differs from s. The caller must store the state,
// and publish its bundle to all clients, before it calls Next with it. seen records
// that, and is kept while the caller runs. by returns how to sign a certificate for a
// use.
func (v Server) Next(s State, seen *rotation.Sightings, now time.Time, by func(use string) pki.Signing) (after State, changed bool, again time.Time, err error) {
	own := rotation.Own{Name: v.Name, Lifetime: cmp.Or(v.CALifetime, caLifetime), Propagation: cmp.Or(v.Propagation, propagation)}
	after = s
	if after.ca, changed, again, err = own.Next(s.ca, seen, now, by("root of the serving CA")); err != nil {
		return s, false, now, fmt.Errorf("the CA %s: %w", v.Name, err)
	}
	if !v.serves(after, now) {
		if after.leaf.chain, after.leaf.key, err = v.leaf().Issue(by("serving certificate"), after.ca.Current.Authority, now); err != nil {
			return s, false, now, fmt.Errorf("making the certificate of %s for %v: %w", v.Name, v.Hosts, err)
		}
		changed = true
	}
	again = pki.Earlier(again, v.leaf().Renewal(after.leaf.chain[0], after.ca.Current.Certificate()))
	return after, changed, again, nil
}

func (v Server) leaf() rotation.Leaf {
	return rotation.Leaf{
		Subject: rotation.HostSubject(v.Name, v.Hosts), Usages: pki.ServerUsages(), Lifetime: leafLifetime, RenewBefore: leafRenewal,
	}
}

// serves reports whether the existing certificate can still be used. It may
// have more names than needed: processes that learn a name at different times
// must not keep replacing each other's certificate.
func (v Server) serves(s State, now time.Time) bool {
	if len(s.leaf.chain) == 0 {
		return false
	}
	cert := s.leaf.chain[0]
	missing := slices.ContainsFunc(v.Hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
	return !missing && v.leaf().Lasts(cert, s.ca.Current.Certificate(), now)
}
