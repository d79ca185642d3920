package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/issuing/signer/outbound"
)

// InitError reports that the client for the server could not be created, or could not log
// in.
type InitError struct{ Err error }

func (e *InitError) Error() string { return e.Err.Error() }
func (e *InitError) Unwrap() error { return e.Err }

// UnavailableError means that the server cannot answer now.
type UnavailableError struct {
	Err error
	// RetryAfter is when to try again; 0 leaves it to the caller.
	RetryAfter time.Duration
}

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// AnswerError is an answer of a server that is an error. Its texts have none of
// the credentials that were sent.
type AnswerError struct {
	Method, URL, Namespace string
	Status                 int
	// Errors are the errors in Vault's response. Foreign is set if the body does not have
	// Vault's form; users then do not see the body.
	Errors  []string
	Foreign bool

	retryAfter time.Duration
}

// Error returns the error in the format of Vault's own clients.
func (e *AnswerError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("the Vault server returned an HTTP %d response which is not a Vault error response; "+
			"the response body has been omitted and can be found in the certplane logs", e.Status)
	}
	var text strings.Builder
	text.WriteString("Error making API request.\n\n")
	if e.Namespace != "" && e.Namespace != "root/" {
		text.WriteString("Namespace: " + e.Namespace + "\n")
	}
	fmt.Fprintf(&text, "URL: %s %s\nCode: %d. Errors:\n\n", e.Method, e.URL, e.Status)
	for _, line := range e.Errors {
		text.WriteString("* " + line)
	}
	return text.String()
}

// connectionError is a call without an answer.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// stateError reports the state of a server that cannot serve.
type stateError string

func (e stateError) Error() string { return string(e) }

// accessError is a failure before the server was called.
type accessError struct{ err error }

func (e *accessError) Error() string { return e.err.Error() }
func (e *accessError) Unwrap() error { return e.err }

// Text returns the text of an error for conditions and Events: at most 1,024
// bytes, and nothing of an answer that does not have Vault's form.
func Text(err error) string {
	var answered *AnswerError
	if errors.As(err, &answered) && answered.Foreign {
		return answered.Error()
	}
	return outbound.Cut(err.Error(), outbound.MaxText)
}

// Temporary reports whether the server is unavailable: a later call can succeed without a
// change of the request or the issuer.
func Temporary(err error) bool { return unavailable(err) }

func unavailable(err error) bool {
	var answered *AnswerError
	switch {
	case errors.As(err, &answered):
		status := answered.Status
		return status >= 500 || status < 400 || status == http.StatusRequestTimeout ||
			status == http.StatusPreconditionFailed || status == http.StatusTooManyRequests
	default:
		return errors.As(err, new(*connectionError)) || errors.As(err, new(*UnavailableError)) || errors.As(err, new(stateError))
	}
}

// healthOf returns what the result of an attempt means for the server.
func healthOf(err error) breaker.Health {
	var answered *AnswerError
	switch {
	case err == nil:
		return breaker.Answered
	case errors.As(err, new(*accessError)), errors.Is(err, context.Canceled):
		return breaker.Abandoned
	case errors.As(err, &answered) && answered.Status >= 500, errors.As(err, new(*connectionError)), errors.As(err, new(stateError)):
		return breaker.Unanswered
	}
	return breaker.Answered
}

// readErrors returns the errors in a body of Vault; ok is false if it has
// another form.
func readErrors(body []byte) (lines []string, ok bool) {
	var parsed struct {
		Errors *[]string `json:"errors"`
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.Errors == nil {
		return nil, false
	}
	return *parsed.Errors, true
}
