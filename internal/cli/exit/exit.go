// Package exit says how a command line ends: its exit code and last words, with what
// to do about errors of servers and about their absence.
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
	// Denied and Failed are verdicts on a certificate request, TimedOut the
	// lack of one.
	Denied   = 3
	Failed   = 4
	TimedOut = 5
	// Unwell says that what was asked about was found, and does not work as it
	// should.
	Unwell = 6
	// Interrupted is 128 + SIGINT, as shells have it.
	Interrupted = 130
)

// Error is an error that knows the exit code it deserves and what the person
// can do about it.
type Error struct {
	Err  error
	Code int
	// Next tells what to do now, one line each. A line may be a command to type.
	Next []string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// WithNext adds advice to an error. Advice that is already there is more
// specific and stays in front.
func WithNext(err error, next ...string) error {
	var known *Error
	if errors.As(err, &known) {
		return &Error{Err: err, Code: known.Code, Next: append(append([]string(nil), known.Next...), next...)}
	}
	return &Error{Err: err, Code: code(err), Next: next}
}

// UsageError is an error in how the command was typed; command is the one
// whose help explains it.
func UsageError(command string, err error) error {
	return &Error{Err: err, Code: Usage, Next: []string{fmt.Sprintf("See '%s --help'.", command)}}
}

// Report tells the person what went wrong and returns the exit code.
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
