// Package exit defines the exit codes and final errors of a command line, with
// advice for errors of servers and for missing servers.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes of certplane's own verbs. The built-in kubectl keeps kubectl's.
const (
	OK      = 0
	General = 1
	Usage   = 2
	// Denied and Failed are verdicts on a certificate request. TimedOut means
	// that there was none in time.
	Denied   = 3
	Failed   = 4
	TimedOut = 5
	// Unwell says that the object was found, and does not work as it should.
	Unwell = 6
	// Interrupted is 128 + SIGINT, as in shells.
	Interrupted = 130
)

// Error is an error with its exit code and with advice for the user.
type Error struct {
	Err  error
	Code int
	// Next is what to do now, in lines. A line may be a command to type.
	Next []string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// WithNext adds advice to an error. Existing advice is more specific and stays
// in front.
func WithNext(err error, next ...string) error {
	var known *Error
	if errors.As(err, &known) {
		return &Error{Err: err, Code: known.Code, Next: append(append([]string(nil), known.Next...), next...)}
	}
	return &Error{Err: err, Code: code(err), Next: next}
}

// UsageError returns an error for a mistyped command line; command is the
// command whose help explains it.
func UsageError(command string, err error) error {
	return &Error{Err: err, Code: Usage, Next: []string{fmt.Sprintf("See '%s --help'.", command)}}
}

// Report prints the error and its advice and returns the exit code.
func Report(w io.Writer, err error) int {
	if err == nil {
		return OK
	}
	fmt.Fprintf(w, "Error: %s\n", strings.TrimRight(err.Error(), "\n"))
	var known *Error
	if !errors.As(err, &known) {
		return code(err)
	}
	for _, line := range known.Next {
		fmt.Fprintln(w, line)
	}
	return known.Code
}

func code(err error) int {
	if errors.Is(err, context.Canceled) {
		return Interrupted
	}
	return General
}
