// Package answer defines the exit codes of policy verbs: 1 if the answer is no, 2 if it
// is unknown.
package answer

import (
	"context"
	"errors"
	"fmt"

	"github.com/certplane/certplane/internal/client/cli/exit"
)

const (
	no      = 1
	unknown = 2
)

// noError is an answer.
type noError struct{ text string }

func (e *noError) Error() string { return e.text }

// No returns the error for the answer no.
func No(format string, args ...any) error {
	return &exit.Error{Err: &noError{fmt.Sprintf(format, args...)}, Code: no}
}

// IsNo reports whether an error is the answer no.
func IsNo(err error) bool {
	var answer *noError
	return errors.As(err, &answer)
}

// OrUnknown gives every error that is not an answer the exit code 2.
func OrUnknown(err error) error {
	if err == nil || IsNo(err) || errors.Is(err, context.Canceled) {
		return err
	}
	var known *exit.Error
	if errors.As(err, &known) {
		return &exit.Error{Err: err, Code: unknown, Next: known.Next}
	}
	return &exit.Error{Err: err, Code: unknown}
}
