package venafi

import (
	"context"
	"errors"
	"time"

	"github.com/certplane/certplane/internal/issuing/signer/breaker"
)

// The texts of all errors of this package are for users: they contain no credentials, have
// at most 1,024 bytes, and quote only the error fields of the APIs from servers' answers.

// InitError means that no client could be made for the server, or that the server does not
// accept the credentials.
type InitError struct {
	Err error
	// Refused is set if the server has refused the credentials.
	Refused bool

	silent bool // the server did not answer
}

func (e *InitError) Error() string { return e.Err.Error() }
func (e *InitError) Unwrap() error { return e.Err }

// UnavailableError means that the server cannot answer now.
type UnavailableError struct {
	Err error
	// RetryAfter is when to try again; 0 leaves it to the caller.
	RetryAfter time.Duration

	// abandoned is set if the caller gave up, spared if no call was made: neither indicates
	// a problem of the server.
	abandoned, spared bool
}

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// PendingError means that the certificate has not been issued yet.
type PendingError struct{ Text string }

func (e *PendingError) Error() string { return e.Text }

// healthOf returns what the result of an attempt means for the server's health.
func healthOf(err error) breaker.Health {
	var failed *InitError
	var unavailable *UnavailableError
	switch {
	case errors.As(err, &unavailable) && (unavailable.abandoned || unavailable.spared), errors.Is(err, context.Canceled):
		return breaker.Abandoned
	case errors.As(err, &unavailable), errors.As(err, &failed) && failed.silent:
		return breaker.Unanswered
	}
	return breaker.Answered
}
