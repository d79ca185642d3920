package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// ReasonUnavailable is the reason of a verdict on a request whose server cannot
// answer now.
const ReasonUnavailable = "VaultUnavailable"

// patience is how long a CertificateRequest waits for a server that does not
// answer. After that it fails, so that its Certificate makes a new request later.
const patience = 24 * time.Hour

// words are the reasons of verdicts and the beginnings of their messages.
type words struct {
	missing, init, refused string
	missingText, initText  string
	refusedText            string
}

// Clients of cert-manager.io know other words for CertificateRequests than for
// CertificateSigningRequests.
var (
	wordsOfRequests = words{
		missing: "SecretMissing", missingText: "Required secret resource not found",
		init: "VaultInitError", initText: "Failed to initialise vault client for signing",
		refused: "SigningError", refusedText: "Vault failed to sign certificate",
	}
	wordsOfCSRs = words{
		missing: "SecretNotFound", missingText: "Required secret resource not found",
		init: "ErrorVaultInit", initText: "Failed to initialise vault client for signing",
		refused: "ErrorSigning", refusedText: "Vault failed to sign",
	}
)

func wordsFor(req issuing.Request) words {
	if req.Kind == request.CertificateRequests {
		return wordsOfRequests
	}
	return wordsOfCSRs
}

// Sign lets the server of an issuer sign.
func (b *backend) Sign(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*signer.Issued, error) {
	say := wordsFor(req)
	csr, err := req.ParseVerbatim()
	if err != nil {
		return nil, issuing.Permanent(say.refused, say.refusedText, fmt.Errorf("failed to decode CSR for signing: %w", err))
	}
	if err := req.CheckDuration(); err != nil {
		return nil, issuing.Permanent(say.refused, say.refusedText, err)
	}
	if problem := problemOf(by.GetSpec().Vault); problem != "" {
		return nil, issuing.Pending(say.init, say.initText+": "+problem, nil) // a newer spec than the one that was ready
	}
	i := b.issuerOf(by)
	bundle, err := b.pool.Sign(ctx, i, b.accessOf(i), vault.Order{ID: req.UID, PEM: req.PEM, CSR: csr, Duration: req.Lifetime().Max})
	if err != nil {
		return nil, say.verdict(err, req, now)
	}
	issued, err := accept(bundle, csr, req.Terms.IsCA, req.Lifetime().Max, now)
	if err == nil {
		err = b.checkHonoured(issued)
	}
	if err != nil {
		return nil, issuing.Permanent(say.refused, say.refusedText, err)
	}
	return issued.Issued, nil
}

// checkHonoured refuses what would have too many privileges at the API server.
func (b *backend) checkHonoured(got *accepted) error {
	return b.Rules.Honoured.Check(got.path)
}

// verdict returns the verdict after an error of the pool.
func (say words) verdict(err error, req issuing.Request, now time.Time) error {
	text := vault.Text(err)
	var unavailable *vault.UnavailableError
	switch {
	case errors.As(err, new(*vault.InitError)):
		return say.initVerdict(err, text)
	case !errors.As(err, &unavailable):
		return issuing.Permanent(say.refused, say.refusedText, errors.New(text))
	case req.Kind == request.CertificateRequests && now.Sub(req.Created) > patience:
		return issuing.Permanent(say.refused, say.refusedText, fmt.Errorf("no answer for %v: %s", patience, text))
	}
	return &signer.PendingError{
		Reason: ReasonUnavailable, Message: "Vault cannot sign at present; it keeps trying: " + text,
		Err: errors.New(eventtext.Line(text)), RetryAfter: unavailable.RetryAfter,
	}
}

// initVerdict returns the verdict if the client or the token could not be created. A change
// of a Secret wakes the request in any case.
func (say words) initVerdict(err error, text string) error {
	switch {
	case apierrors.IsNotFound(err):
		return issuing.Pending(say.missing, say.missingText, errors.New(text))
	case vault.NoAuth(err):
		return issuing.Pending(say.init, say.initText, errors.New(text))
	}
	message := say.initText + ": " + text
	return &signer.PendingError{Reason: say.init, Message: message, Err: errors.New(eventtext.Line(message))}
}
