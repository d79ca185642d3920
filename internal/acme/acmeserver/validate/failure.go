package validate

import (
	"fmt"
	"net/http"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
)

// failure is why an attempt has failed.
type failure struct {
	// kind is the type of the problem, and detail is what the client learns.
	kind, detail string
	final, ours  bool
	// cause is for logs, with addresses; it can be nil.
	cause error
}

// Error returns what administrators see.
func (f *failure) Error() string {
	if f.cause != nil {
		return f.detail + ": " + f.cause.Error()
	}
	return f.detail
}

func (f *failure) Unwrap() error { return f.cause }

// statuses are the statuses of problems that are not 400.
var statuses = map[string]int{
	rfc8555.ProblemIncorrectResponse: http.StatusForbidden,
	rfc8555.ProblemUnauthorized:      http.StatusForbidden,
	rfc8555.ProblemServerInternal:    http.StatusInternalServerError,
}

func (f *failure) problem() *rfc8555.Problem {
	status, ok := statuses[f.kind]
	if !ok {
		status = http.StatusBadRequest
	}
	return &rfc8555.Problem{Type: rfc8555.Namespace + f.kind, Detail: f.detail, Status: status}
}

// notPermitted is the failure of an address or a name that the rules refuse.
func notPermitted(what string, refusal acmeaddress.Refusal) *failure {
	return &failure{
		kind: rfc8555.ProblemConnection, detail: "address not permitted", final: true,
		cause: fmt.Errorf("%s: %s", what, refusal),
	}
}
