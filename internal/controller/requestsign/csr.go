package requestsign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/process/notify"
)

// CSRName is the name, on the command line, of the controller that answers
// CertificateSigningRequests.
const CSRName = "certificatesigningrequests"

const (
	// lookAgain is the wait before the next attempt if no watch reports the
	// change. lookSometimes is the wait if one does, in case an event was
	// missed.
	lookAgain     = 5 * time.Second
	lookSometimes = 5 * time.Minute
)

// CSRConfig is the configuration of issuers that answer CertificateSigningRequests.
type CSRConfig struct {
	// Cache has the issuers.
	Cache cache.Cache
	// Config contains the dependencies of issuers. Client also needs create on
	// subjectaccessreviews.
	issuing.Config
	// Issuers are the issuers of all types.
	Issuers issuertypes.Issuers
}

// IsIssuer reports whether a signer name is the name of an issuer.
func IsIssuer(signerName string) bool {
	_, ok := certmanager.ParseSignerName(signerName)
	return ok
}

// CSRs is the signer that consists of all issuers. It runs as a part of a
// manager, to learn of changes.
type CSRs struct {
	CSRConfig
	changes notify.List[func(waited *csr) bool]
}

// NewCSRs returns the signer that consists of all issuers.
func NewCSRs(cfg CSRConfig) *CSRs {
	return &CSRs{CSRConfig: cfg}
}

// Sign implements signer.Sign.
func (c *CSRs) Sign(ctx context.Context, req request.Request, permitted signer.Permission, now time.Time) (*signer.Issued, error) {
	who, isIssuer := certmanager.ParseSignerName(req.SignerName)
	if !isIssuer {
		return nil, signer.Unavailable(fmt.Errorf("%s is no issuer", req.SignerName))
	}
	found, err := find(ctx, c.Cache, who)
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	waits := requests.ObstacleOf(found, who, c.Issuers.Has)
	if found == nil || waits.Reason == requests.ReasonTypeMissing {
		return nil, later(waits)
	}
	// A user who may not refer to an issuer need not wait for it.
	if err := c.checkReference(ctx, req.Requester, who); err != nil {
		return nil, err
	}
	asked, err := issuing.RequestOf(req)
	if err != nil {
		return nil, err
	}
	if !waits.None() {
		return nil, later(waits)
	}
	asked.Permission = permitted
	issued, err := c.Issuers.Sign(ctx, found, asked, now)
	if err != nil {
		return nil, forCSR(err)
	}
	issued.Warnings = warningsForCSR(issued)
	return issued, nil
}

// warningsForCSR returns the warnings that the Event about the certificate does
// not contain: that one says if the certificate ends with its CA.
func warningsForCSR(issued *signer.Issued) []signer.Warning {
	return slices.DeleteFunc(slices.Clone(issued.Warnings), func(w signer.Warning) bool {
		return w.Reason == issuing.WarningShortened && issued.ShortenedBy > 0
	})
}

// forCSR sets a short retry delay for errors whose end no watch reports, unless
// the signer wants a longer one.
func forCSR(err error) error {
	var wait *signer.PendingError
	if !errors.As(err, &wait) || wait.Paced {
		return err
	}
	again := *wait
	if again.Watched {
		again.RetryAfter = lookSometimes
	}
	again.RetryAfter = max(again.RetryAfter, lookAgain)
	return &again
}

func later(o requests.Obstacle) error {
	return &signer.PendingError{Reason: o.Reason, Message: o.Message, Err: errors.New(o.Message), RetryAfter: lookSometimes}
}

// checkReference checks whether the requester may refer to an issuer.
func (c *CSRs) checkReference(ctx context.Context, by request.Requester, who certmanager.Signer) error {
	rights := requests.References(who)
	if len(rights) == 0 {
		return nil
	}
	allowed, err := issuing.MayRefer(ctx, c.Client, by, rights...)
	switch {
	case err != nil:
		return signer.Unavailable(fmt.Errorf("asking whether %s may refer to %s: %w", by.Username, who, err))
	case !allowed:
		return issuing.DeniedReference(by.Username, who)
	}
	return nil
}
