package signer

import (
	"crypto/x509"

	"github.com/certplane/certplane/internal/pki"
)

// Examine reaches the verdicts that depend on the request alone, for signers
// whose CA is elsewhere. Its errors are *PermanentError.
func (p Profile) Examine(req Request) (*x509.CertificateRequest, pki.Usages, error) {
	fit, err := p.examine(req)
	return fit.request, fit.usages, err
}
