package profile

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"hash/fnv"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Certificate is what a request gets: everything of a certificate but its
// serial number, CA and signature.
type Certificate struct {
	// Key is the requester's.
	Key crypto.PublicKey
	// Subject is RawSubject, read. RawSubject is the subject in DER.
	Subject    pkix.Name
	RawSubject []byte

	DNSNames       []string
	IPAddresses    []net.IP
	URIs           []*url.URL
	EmailAddresses []string

	Usages pki.Usages
	// Duration is the whole life, from notBefore to notAfter. Backdate is the
	// part of it that lies before the certificate is made. Both are whole
	// seconds.
	Duration, Backdate time.Duration

	refresh refresh
}

// Validity is when the certificate is valid if it is made now.
func (c *Certificate) Validity(now time.Time) pki.Validity {
	notBefore := now.UTC().Add(-c.Backdate).Truncate(time.Second)
	return pki.Validity{NotBefore: notBefore, NotAfter: notBefore.Add(c.Duration)}
}

// Template describes the certificate for pki's linter.
func (c *Certificate) Template(validity pki.Validity, serial *big.Int) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             validity.NotBefore,
		NotAfter:              validity.NotAfter,
		PublicKey:             c.Key,
		Subject:               c.Subject,
		RawSubject:            c.RawSubject,
		DNSNames:              c.DNSNames,
		IPAddresses:           c.IPAddresses,
		URIs:                  c.URIs,
		EmailAddresses:        c.EmailAddresses,
		KeyUsage:              c.Usages.Key,
		ExtKeyUsage:           c.Usages.Extended,
		BasicConstraintsValid: true, // says "not a CA" instead of saying nothing
	}
}

// RefreshAt is when the holder of a certificate of this validity is to get the
// next one. It is the same for each call with one uid, which is that of the
// request, and spread over the uids.
func (c *Certificate) RefreshAt(notBefore, notAfter time.Time, uid string) time.Time {
	return c.refresh.at(notBefore, notAfter, uid)
}

// refresh is the part of a certificate's life after which it is refreshed, and
// by which part of its life that moment is moved at most. In percent.
type refresh struct{ percent, jitter int64 }

// margin is how far from both ends of its life a certificate is refreshed at
// least: the API accepts no other beginRefreshAt.
const margin = 10 * time.Minute

// at keeps the window in which refreshes are spread as wide as it was declared
// if it can be moved off the margins, so that short-lived certificates are
// spread, too.
func (r refresh) at(notBefore, notAfter time.Time, uid string) time.Time {
	life := int64(notAfter.Sub(notBefore) / time.Second)
	first, last := int64(margin/time.Second), life-int64(margin/time.Second)
	if last < first { // too short for margins: no certificate of a pod is
		first, last = life/2, life/2
	}
	width := min(2*percentOf(life, r.jitter), last-first)
	start := min(max(percentOf(life, r.percent)-width/2, first), last-width)
	return notBefore.UTC().Truncate(time.Second).Add(time.Duration(start+spread(uid, width)) * time.Second)
}

func percentOf(seconds, percent int64) int64 {
	return seconds/100*percent + seconds%100*percent/100
}

// spread is a number from 0 to width, evenly spread over the uids.
func spread(uid string, width int64) int64 {
	if width <= 0 {
		return 0
	}
	hash := fnv.New64a()
	hash.Write([]byte(uid))
	return int64(hash.Sum64() % uint64(width+1))
}
