package signer

import (
	"fmt"
	"time"
)

// The reasons of verdicts, as conditions and metrics show them.
const (
	// ReasonValidation: the request does not fit the signer's profile.
	ReasonValidation = "SignerValidationFailure"
	// ReasonInvalidRequest: spec.request cannot be read, or its signature
	// does not prove possession of the key.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonUnsupportedKey: the signer issues nothing for such a key.
	ReasonUnsupportedKey = "UnsupportedKey"
	// ReasonRefused: the certificate would break the rules of X.509.
	ReasonRefused = "CertificateRefused"

	// ReasonExpired: the CA has expired or is not valid yet.
	ReasonExpired = "SignerExpired"
	// ReasonUnavailable: the CA or its key cannot be used.
	ReasonUnavailable = "SignerUnavailable"
	// ReasonPending: the signer is elsewhere and takes its time.
	ReasonPending = "SignerPending"
	// ReasonInvalidAnswer: the signer is elsewhere, and its answer unusable.
	ReasonInvalidAnswer = "SignerAnswerInvalid"
)

// PermanentReasons returns the reasons why a request never gets a certificate.
// Signers elsewhere can have others.
func PermanentReasons() []string {
	return []string{ReasonValidation, ReasonInvalidRequest, ReasonUnsupportedKey, ReasonRefused}
}

// PendingReasons returns the reasons why a request has to wait.
func PendingReasons() []string {
	return []string{ReasonExpired, ReasonUnavailable, ReasonPending, ReasonInvalidAnswer}
}

// PermanentError is the verdict that this request will never get a
// certificate. Its message is for the requester.
type PermanentError struct {
	Reason string
	Err    error
}

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// PendingError is the verdict that the request is fine so far and the signer
// is not: the same request can get a certificate later.
type PendingError struct {
	Reason string
	// Message is for the requester: it tells nothing of the signer's insides.
	Message string
	// Err is for the operator.
	Err error
	// Note is what an Event says instead of Message; it can tell more.
	// Empty: Message.
	Note string
	// RetryAfter is when to try again; 0 leaves it to the caller.
	RetryAfter time.Duration
	// Watched reports that a watch tells when there is reason to try again.
	Watched bool
}

func (e *PendingError) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }
func (e *PendingError) Unwrap() error { return e.Err }

// Permanent makes a verdict that ends a request.
func Permanent(reason string, err error) error { return &PermanentError{Reason: reason, Err: err} }

// Unavailable makes a verdict about a signer that cannot sign now, be it that
// it has no CA or that its key does not answer.
func Unavailable(err error) error {
	return &PendingError{Reason: ReasonUnavailable, Message: "the signer cannot sign at present; it keeps trying", Err: err}
}

// Expired makes a verdict about a CA that is outside of its validity, which
// err describes in public facts.
func Expired(err error) error {
	return &PendingError{Reason: ReasonExpired, Message: err.Error(), Err: err}
}
