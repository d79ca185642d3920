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

// Certificate is the certificate for a request, without its serial number, CA
// and signature.
type Certificate struct {
	// Key is the requester's public key.
	Key crypto.PublicKey
	// Subject is RawSubject, parsed. RawSubject is the subject in DER.
	Subject    pkix.Name
	RawSubject []byte

	DNSNames       []string
	IPAddresses    []net.IP
	URIs           []*url.URL
	EmailAddresses []string

	Usages pki.Usages
	// Duration is the whole lifetime, from notBefore to notAfter. Backdate is
	// the part of it before the certificate is signed. Both are whole seconds.
	Duration, Backdate time.Duration

	refresh refresh
}

// Validity returns the validity of the certificate if it is signed now.
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
		BasicConstraintsValid: true, // states "not a CA" explicitly
	}
}

// RefreshAt returns when the holder of a certificate with this validity should
// request the next one. uid is the UID of the request. The result is the same
// in each call with the same uid, and spread over different uids.
func (c *Certificate) RefreshAt(notBefore, notAfter time.Time, uid string) time.Time {
	return c.refresh.at(notBefore, notAfter, uid)
}

// refresh contains two percentages of a certificate's lifetime: the part after which it is
// refreshed, and the largest part that this moment is moved by.
type refresh struct{ percent, jitter int64 }

// margin is the shortest time between a refresh and each end of the
// certificate's lifetime: the API accepts no other beginRefreshAt.
const margin = 10 * time.Minute

// at returns the time of the refresh. If the window for refreshes overlaps a
// margin, at moves the window instead of narrowing it where possible, so that
// refreshes of short-lived certificates are spread too.
func (r refresh) at(notBefore, notAfter time.Time, uid string) time.Time {
	life := int64(notAfter.Sub(notBefore) / time.Second)
	first, last := int64(margin/time.Second), life-int64(margin/time.Second)
	if last < first { // too short for margins; no pod's certificate is
		first, last = life/2, life/2
	}
	width := min(2*percentOf(life, r.jitter), last-first)
	start := min(max(percentOf(life, r.percent)-width/2, first), last-width)
	return notBefore.UTC().Truncate(time.Second).Add(time.Duration(start+spread(uid, width)) * time.Second)
}

func percentOf(seconds, percent int64) int64 {
	return seconds/100*percent + seconds%100*percent/100
}

// spread returns a number from 0 to width, evenly distributed over the uids.
func spread(uid string, width int64) int64 {
	if width <= 0 {
		return 0
	}
	hash := fnv.New64a()
	hash.Write([]byte(uid))
	return int64(hash.Sum64() % uint64(width+1))
}
