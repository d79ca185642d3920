package signer

import (
	"errors"
	"fmt"
	"time"
)

// The reasons of verdicts, as in conditions and metrics.
const (
	// ReasonValidation: the request does not fit the signer's profile.
	ReasonValidation = "SignerValidationFailure"
	// ReasonInvalidRequest: spec.request cannot be parsed, or its signature
	// does not prove possession of the key.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonUnsupportedKey: the signer does not support the key.
	ReasonUnsupportedKey = "UnsupportedKey"
	// ReasonRefused: the certificate would break the rules of X.509.
	ReasonRefused = "CertificateRefused"

	// ReasonExpired: the CA has expired or is not valid yet.
	ReasonExpired = "SignerExpired"
	// ReasonUnavailable: the CA or its key cannot be used.
	ReasonUnavailable = "SignerUnavailable"
	// ReasonPending: the signer is remote and needs more time.
	ReasonPending = "SignerPending"
	// ReasonInvalidAnswer: the signer is remote, and its answer is not usable.
	ReasonInvalidAnswer = "SignerAnswerInvalid"
)

// PermanentReasons returns the reasons why a request never gets a certificate.
// Remote signers can have others.
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

// PendingError is the verdict that the request is valid so far, but the signer
// cannot answer: the same request can get a certificate later.
type PendingError struct {
	Reason string
	// Message is for the requester: it shows no internals of the signer.
	Message string
	// Err is for the operator.
	Err error
	// Note is the note of an Event; it can contain more than Message. If empty,
	// Message is used.
	Note string
	// Class is the cause of the wait. A change of Class causes an Event, a change of
	// Message does not. If empty, Reason and Message together are the class.
	Class string
	// RetryAfter is when to try again; 0 leaves it to the caller.
	RetryAfter time.Duration
	// Watched is set if a watch triggers the next attempt.
	Watched bool
	// Paced is set if the signer is at work and chooses the pauses: the next attempt
	// is to be after RetryAfter, neither earlier nor later.
	Paced bool
}

func (e *PendingError) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }
func (e *PendingError) Unwrap() error { return e.Err }

// Permanent returns a verdict that ends a request.
func Permanent(reason string, err error) error { return &PermanentError{Reason: reason, Err: err} }

// Unavailable returns a verdict about a signer that cannot sign now, because it
// has no CA or its key does not answer. An error that is a verdict already stays
// what it is.
func Unavailable(err error) error {
	if verdict := new(PendingError); errors.As(err, &verdict) {
		return err
	}
	if verdict := new(PermanentError); errors.As(err, &verdict) {
		return err
	}
	return &PendingError{Reason: ReasonUnavailable, Message: "the signer cannot sign at present; it keeps trying", Err: err}
}

// Expired returns a verdict about a CA that is outside of its validity. err
// must contain only public facts.
func Expired(err error) error {
	return &PendingError{Reason: ReasonExpired, Message: err.Error(), Err: err}
}
