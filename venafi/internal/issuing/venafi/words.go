package venafi

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

const (
	// ReasonUnavailable is the reason of a verdict on a request whose server cannot
	// answer now.
	ReasonUnavailable = "VenafiUnavailable"
	// ReasonPending: the certificate is ordered, and not issued yet.
	ReasonPending = "IssuancePending"
)

// patience is how long a CertificateRequest waits for a server that does not
// answer. After that it fails, so that its Certificate makes a new request later.
const patience = 24 * time.Hour

// words are the reasons of verdicts and the beginnings of their messages.
type words struct {
	fields, pickup string // the annotations

	missing, init, customFields  string
	request, requestText         string
	retrieve, retrieveText       string
	parse, pendingText           string
	secretText, initText, parsed string
}

// Clients of cert-manager.io expect other words for CertificateRequests than for
// CertificateSigningRequests.
var (
	wordsOfRequests = words{
		fields: annotationFields, pickup: annotationPickup,
		missing: "SecretMissing", secretText: "Required secret resource not found",
		init: "VenafiInitError", initText: "Failed to initialise Certificate Manager client for signing",
		customFields: "CustomFieldsError",
		request:      "RequestError", requestText: "Failed to request certificate from Certificate Manager",
		retrieve: "RetrieveError", retrieveText: "Failed to obtain certificate from Certificate Manager",
		parse: "ParseError", parsed: "Failed to parse returned certificate bundle",
		pendingText: "certificate still in a pending state, the request will be retried",
	}
	wordsOfCSRs = words{
		fields: annotationFieldsOfCSR, pickup: annotationPickupOfCSR,
		missing: "SecretNotFound", secretText: "Required secret resource not found",
		init: "ErrorVenafiInit", initText: "Failed to initialise Certificate Manager client for signing",
		customFields: "ErrorCustomFields",
		request:      "ErrorRequest", requestText: "Failed to request Certificate Manager certificate",
		retrieve: "ErrorRetrieve", retrieveText: "Failed to obtain Certificate Manager certificate",
		parse: "ErrorParse", parsed: "Failed to parse returned certificate bundle",
		pendingText: "certificate still in a pending state, waiting",
	}
)

func wordsFor(req issuing.Request) words {
	if req.Kind == request.CertificateRequests {
		return wordsOfRequests
	}
	return wordsOfCSRs
}

// verdict returns the verdict after an error of the servers. reason and text are used if the
// server refused.
func (say words) verdict(err error, req issuing.Request, now time.Time, reason, text string) error {
	var unavailable *venafi.UnavailableError
	switch {
	case errors.As(err, new(*venafi.InitError)) && apierrors.IsNotFound(err):
		return issuing.Pending(say.missing, say.secretText, err) // a change of the Secret wakes it
	case errors.As(err, new(*venafi.InitError)):
		message := fmt.Sprintf("%s: %v", say.initText, err)
		return &signer.PendingError{Reason: say.init, Message: message, Err: errors.New(message)}
	case !errors.As(err, &unavailable):
		return issuing.Permanent(reason, text, err)
	case req.Kind == request.CertificateRequests && now.Sub(req.Created) > patience:
		return issuing.Permanent(reason, text, fmt.Errorf("no answer for %v: %w", patience, err))
	}
	return &signer.PendingError{
		Reason: ReasonUnavailable, Message: fmt.Sprintf("Certificate Manager cannot answer at present; it keeps trying: %v", err),
		Err: err, RetryAfter: unavailable.RetryAfter,
	}
}
