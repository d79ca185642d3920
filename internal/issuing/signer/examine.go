package signer

import (
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Examine checks what depends only on the request, for signers whose CA is not
// in this process. Its errors are *PermanentError.
func (p Profile) Examine(req request.Request) (*pki.Request, pki.Usages, error) {
	fit, err := p.examine(req)
	return fit.request, fit.usages, err
}
