package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// State is the state of a request.
type State int

const (
	// Waiting requests can get a certificate later.
	Waiting State = iota
	// Issued requests have their certificate.
	Issued
	// Failed requests never get a certificate: what is wrong with them is wrong
	// for every signer.
	Failed
	// Denied requests never get a certificate, because an approver or the
	// policy of the signer denies it.
	Denied
)

// String returns the reason of the condition Ready of CertificateRequests.
func (s State) String() string {
	return [...]string{
		cmv1.CertificateRequestReasonPending, cmv1.CertificateRequestReasonIssued, cmv1.CertificateRequestReasonFailed, cmv1.CertificateRequestReasonDenied,
	}[s]
}

// Outcome is the result for a request.
type Outcome struct {
	State State
	// Reason is a word for programs, in conditions, Events and metrics. If it is empty,
	// neither an Event nor a metric is recorded.
	Reason string
	// Message is for the requester. It fits conditions and Events.
	Message string
	// Note is the note of the Event; if empty, Message is used.
	Note string
	// Class is the cause for which a request waits. Consecutive outcomes of the same class
	// cause one Event; with an empty class, each new Message causes an Event.
	Class string
	// Routine means that the wait is expected: the Event about it is of type
	// Normal.
	Routine bool
	// Invalid means, for a Failed CertificateRequest, that no issuer can sign
	// it.
	Invalid bool
	// Issued is the certificate of an Issued request, otherwise nil.
	Issued *signer.Issued
	// Retry is why the request has to be tried again. It is nil if a watch
	// reports a change of the object that the request waits for.
	Retry error
	// After is when to try again; 0 leaves it to the back-off of the queue.
	After time.Duration
}

// Final reports whether the request is finished.
func (o Outcome) Final() bool { return o.State != Waiting }

// Refused reports whether the request never gets a certificate.
func (o Outcome) Refused() bool { return o.State == Failed || o.State == Denied }

// AsRequested reports whether the request got its certificate without deviations that an
// Event should report.
func (o Outcome) AsRequested() bool {
	return o.Issued != nil && len(o.Issued.Warnings) == 0 && o.Issued.ShortenedBy == 0
}

// Decide converts the answer of a signer to an outcome. reason is the reason of
// the Event about a certificate. An error that is not a verdict means that the
// signer has a temporary problem.
func Decide(issued *signer.Issued, err error, reason string) Outcome {
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case err == nil:
		return Outcome{State: Issued, Reason: reason, Note: noteOf(issued), Issued: issued}
	case errors.As(err, &permanent):
		return Outcome{State: Failed, Reason: permanent.Reason, Message: eventtext.Fit(err.Error())}
	case errors.As(err, &pending):
		return Outcome{
			State: Waiting, Reason: pending.Reason, Message: eventtext.Fit(pending.Message),
			Note: eventtext.Fit(cmp.Or(pending.Note, pending.Message)), Class: pending.Class, Retry: err, After: pending.RetryAfter, Routine: pending.Paced,
		}
	default:
		return Decide(nil, signer.Unavailable(err), reason)
	}
}

// noteOf returns the note of the Event about a certificate.
func noteOf(issued *signer.Issued) string {
	cert := issued.Certificate
	text := fmt.Sprintf("Issued the certificate with serial number %x and SHA-256 fingerprint %s", cert.SerialNumber, pki.Fingerprint(cert))
	if issued.ShortenedBy > 0 {
		text += fmt.Sprintf(", which ends on %s with its CA, %v earlier than requested", cert.NotAfter.Format(time.RFC3339), issued.ShortenedBy)
	}
	return text
}

// Wait returns the outcome of a request that can get a certificate later.
func Wait(reason, format string, args ...any) Outcome {
	return Outcome{State: Waiting, Reason: reason, Message: eventtext.Fit(fmt.Sprintf(format, args...)), Routine: true}
}

// Fail returns the outcome of a request that never gets a certificate.
func Fail(reason, format string, args ...any) Outcome {
	return Outcome{State: Failed, Reason: reason, Message: eventtext.Fit(fmt.Sprintf(format, args...))}
}
