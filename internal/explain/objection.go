package explain

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/signer"
)

// objection returns the objection of a signer that certplane knows to a
// request, or nil. To find it, the request is signed by a temporary CA, which
// is discarded with the certificate. So this code does the same as the signer
// and the linter.
func objection(c *csr, now time.Time) error {
	profile, err := signer.Lookup(c.Spec.SignerName)
	if err != nil {
		return nil
	}
	throwaway := func() (*pki.Authority, error) {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			return nil, err
		}
		return pki.NewRoot(pki.UnrecordedSigning, "throwaway", key, pki.DefaultRootLifetime, now)
	}
	_, err = signer.Local(profile, throwaway, pki.Unrecorded)(context.Background(), request.FromCSR(c), now)
	var permanent *signer.PermanentError
	if errors.As(err, &permanent) {
		return permanent
	}
	return nil
}

// profiled reports whether certplane knows the requirements of a signer.
func profiled(signerName string) bool { return slices.Contains(signer.Names(), signerName) }
