package publish

import (
	"crypto/x509"

	"github.com/certplane/certplane/internal/pki"
)

// Bundle returns what to publish: own and, when several servers share one
// store, the CAs of the others. They meet in shared, the bundle in namespace
// kube-system, to which only administrators can add. What is no bundle of
// certificates is thrown away.
func Bundle(own []*x509.Certificate, shared string) string {
	all, err := pki.ParseBundle([]byte(shared))
	if err != nil {
		all = nil
	}
	for _, cert := range own {
		all = appendNew(all, cert)
	}
	return string(pki.EncodeCertificates(all...))
}

func appendNew(all []*x509.Certificate, cert *x509.Certificate) []*x509.Certificate {
	for _, have := range all {
		if have.Equal(cert) {
			return all
		}
	}
	return append(all, cert)
}
