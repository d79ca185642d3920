package declared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/signer"
)

// SignCSR is the signer.Sign of all signers in the set.
func (s *Set) SignCSR(ctx context.Context, req signer.Request, now time.Time) (*signer.Issued, error) {
	found := s.Find(req.SignerName)
	if found == nil {
		return nil, signer.Unavailable(errNotOpen)
	}
	facts, err := factsOf(req)
	if err != nil {
		return nil, signer.Permanent(signer.ReasonInvalidRequest, err)
	}
	issued, err := found.Sign(ctx, facts, now)
	var refusal *profile.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, signer.Permanent(refusal.Reason, errors.New(refusal.Message))
	case err != nil:
		return nil, err
	}
	return issued, nil
}

func factsOf(req signer.Request) (profile.Facts, error) {
	parsed, err := pki.ParseRequest(req.PEM)
	if err != nil {
		return profile.Facts{}, fmt.Errorf("parsing the certificate request: %w", err)
	}
	facts := profile.Facts{
		Kind: v1alpha1.CertificateSigningRequests, Name: req.Name, UID: req.UID,
		Request: parsed, Key: parsed.PublicKey, Duration: req.Duration, Requester: profile.Requester(req.Requester),
	}
	for _, usage := range req.Usages {
		facts.Usages = append(facts.Usages, string(usage))
	}
	return facts, nil
}
