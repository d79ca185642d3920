package signer

import (
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Examine reaches the verdicts that depend on the request alone, for signers
// whose CA is elsewhere. Its errors are *PermanentError.
func (p Profile) Examine(req request.Request) (*pki.Request, pki.Usages, error) {
	fit, err := p.examine(req)
	return fit.request, fit.usages, err
}
