package rotation

import (
	"crypto"
	"crypto/x509"
	"net"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Leaf is an end-entity certificate that certplane issues for itself.
type Leaf struct {
	Subject  pki.Subject
	Usages   pki.Usages
	Lifetime time.Duration
	// RenewBefore is how long before its end the certificate is replaced.
	RenewBefore time.Duration
}

// HostSubject returns the subject of a server that is reached at these DNS
// names and IP addresses.
func HostSubject(commonName string, hosts []string) pki.Subject {
	subject := pki.Subject{CommonName: commonName}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			subject.IPAddresses = append(subject.IPAddresses, ip)
		} else {
			subject.DNSNames = append(subject.DNSNames, host)
		}
	}
	return subject
}

// Issue issues a certificate with a new key. It expires with its CA at the
// latest.
func (l Leaf) Issue(by pki.Signing, ca *pki.Authority, now time.Time) ([]*x509.Certificate, crypto.Signer, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, nil, err
	}
	chain, err := ca.Issue(by, l.Subject, key.Public(), l.Usages, l.Lifetime, now)
	return chain, key, err
}

// Renewal returns when a certificate from ca is due for renewal. A certificate with a
// shorter lifetime is not due before a third of it remains. A certificate that expires
// with its CA is not due before that: the next one would end no later.
func (l Leaf) Renewal(cert, ca *x509.Certificate) time.Time {
	if !cert.NotAfter.Before(ca.NotAfter) {
		return cert.NotAfter
	}
	return Renewal(cert, l.RenewBefore)
}

// Renewal returns when a certificate is due for renewal: before is how long before its
// end, but at most a third of its lifetime.
func Renewal(cert *x509.Certificate, before time.Duration) time.Time {
	return cert.NotAfter.Add(-min(before, cert.NotAfter.Sub(cert.NotBefore)/3))
}

// Lasts reports whether a certificate is from ca and not due for renewal.
func (l Leaf) Lasts(cert, ca *x509.Certificate, now time.Time) bool {
	return now.Before(l.Renewal(cert, ca)) && cert.CheckSignatureFrom(ca) == nil
}
