// Package injection decides which CAs belong into the objects that ask for them by an annotation
// of cert-manager's cainjector. A controller writes them, and a client foretells it.
package injection

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// The bounds of a bundle, which otherwise grows with each new CA until the former ones end.
const (
	MostCertificates = 64
	MostBytes        = 256 << 10
)

// Merge adds the certificates of the source to a stored bundle, and removes repetitions and
// expired certificates. If the result exceeds the bounds, Merge also removes the certificates
// that became valid first, but none of the source; trimmed is their number. It replaces a
// stored bundle that cannot be read. If no certificate changes, it returns the stored bundle.
func Merge(stored []byte, source []*x509.Certificate, now time.Time) (bundle []byte, changed bool, trimmed int) {
	before, err := pki.ParseBundle(stored)
	if err != nil {
		before = nil
	}
	after := Live(append(slices.Clone(before), source...), now)
	trimmed = len(after)
	after = trim(after, source)
	trimmed -= len(after)
	if slices.EqualFunc(before, after, (*x509.Certificate).Equal) {
		return stored, false, 0
	}
	return pki.EncodeCertificates(after...), true, trimmed
}

// Live returns the certificates that have not expired, each once.
func Live(certs []*x509.Certificate, now time.Time) []*x509.Certificate {
	var out []*x509.Certificate
	seen := map[string]bool{}
	for _, cert := range certs {
		if !seen[string(cert.Raw)] && !now.After(cert.NotAfter) {
			out = append(out, cert)
		}
		seen[string(cert.Raw)] = true
	}
	return out
}

// trim returns the certificates within the bounds.
func trim(certs, source []*x509.Certificate) []*x509.Certificate {
	size := len(pki.EncodeCertificates(certs...))
	for len(certs) > MostCertificates || size > MostBytes {
		others := slices.DeleteFunc(slices.Clone(certs), func(cert *x509.Certificate) bool { return slices.ContainsFunc(source, cert.Equal) })
		if len(others) == 0 {
			break
		}
		first := slices.MinFunc(others, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) })
		size -= len(pki.EncodeCertificates(first))
		certs = slices.DeleteFunc(certs, first.Equal)
	}
	return certs
}
