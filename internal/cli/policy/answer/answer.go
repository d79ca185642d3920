// Package answer has the exit codes of the verbs about policies: 1 says that the
// answer is no, 2 that it could not be found out.
package answer

import (
	"context"
	"errors"
	"fmt"

	"github.com/certplane/certplane/internal/cli/exit"
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

// OrUnknown gives every error that is no answer the code for what could not be
// found out.
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
