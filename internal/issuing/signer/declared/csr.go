package declared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// SignCSR is the signer.Sign function for all signers in the set.
func (s *Set) SignCSR(ctx context.Context, req request.Request, permitted signer.Permission, now time.Time) (*signer.Issued, error) {
	found := s.Find(req.SignerName)
	if found == nil {
		return nil, signer.Unavailable(errNotOpen)
	}
	if _, err := req.Parsed(); err != nil {
		return nil, signer.Permanent(signer.ReasonInvalidRequest, err)
	}
	if s.Order != nil && found.Profile.NeedsOrder() {
		var err error
		if req.Order, err = s.Order(ctx, &req); err != nil {
			return nil, signer.Unavailable(fmt.Errorf("reading the AcmeOrder of the request: %w", err))
		}
	}
	issued, err := found.Sign(ctx, req, permitted, now)
	var refusal *profile.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, signer.Permanent(refusal.Reason, errors.New(refusal.Message))
	case err != nil:
		return nil, err
	}
	return issued, nil
}
