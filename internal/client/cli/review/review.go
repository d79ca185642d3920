// Package review asks a person to decide requests one after the other.
package review

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Answer is a person's decision on a request.
type Answer struct {
	// Approve approves the request; otherwise it is denied.
	Approve bool
	// Message is the reason as text for other users; it can be empty.
	Message string
}

// Config is a review of requests of type R.
type Config[R any] struct {
	Requests []R
	// Show shows a request.
	Show func(context.Context, R) error
	// Decide carries out a decision.
	Decide func(context.Context, R, Answer) error
	// AskMessage asks for the message of each denial.
	AskMessage bool
	In         io.Reader
	Out        io.Writer
}

// errQuit reports that the person ended the review.
var errQuit = errors.New("the review was ended")

// Run shows the requests and asks for a decision on each. The end of the input ends the
// review. If the server refuses a decision, Run reports it and continues; it returns the
// errors at the end.
func Run[R any](ctx context.Context, cfg Config[R]) error {
	input := lines(ctx, cfg.In)
	var failed error
	for i, r := range cfg.Requests {
		fmt.Fprintf(cfg.Out, "\n%d of %d\n\n", i+1, len(cfg.Requests))
		if err := cfg.Show(ctx, r); err != nil {
			failed = errors.Join(failed, err) // for example, it was deleted
			fmt.Fprintf(cfg.Out, "Skipped: %v\n", err)
			continue
		}
		answer, err := cfg.ask(ctx, input)
		switch {
		case errors.Is(err, errQuit):
			return failed
		case err != nil:
			return errors.Join(failed, err)
		case answer == nil:
			continue
		}
		if err := cfg.Decide(ctx, r, *answer); err != nil {
			failed = errors.Join(failed, err)
			fmt.Fprintf(cfg.Out, "Not decided: %v\n", err)
		}
	}
	return failed
}

// ask returns the person's answer, or nil for one who skips the request.
func (cfg Config[R]) ask(ctx context.Context, input <-chan string) (*Answer, error) {
	for {
		line, err := cfg.prompt(ctx, input, "\nApprove, deny, skip or quit? [a/d/s/q] ")
		if err != nil {
			return nil, err
		}
		switch strings.ToLower(line) {
		case "a", "approve":
			return &Answer{Approve: true}, nil
		case "d", "deny":
			if !cfg.AskMessage {
				return &Answer{}, nil
			}
			message, err := cfg.prompt(ctx, input, "Reason, for the requester (may be empty): ")
			return &Answer{Message: message}, err
		case "s", "skip":
			return nil, nil
		case "q", "quit":
			return nil, errQuit
		}
		fmt.Fprintln(cfg.Out, "Type a, d, s or q.")
	}
}

func (cfg Config[R]) prompt(ctx context.Context, input <-chan string, text string) (string, error) {
	fmt.Fprint(cfg.Out, text)
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case line, ok := <-input:
		if !ok {
			fmt.Fprintln(cfg.Out)
			return "", errQuit
		}
		return strings.TrimSpace(line), nil
	}
}

// lines returns the lines of the input. A goroutine reads them, because a read cannot be
// interrupted.
func lines(ctx context.Context, in io.Reader) <-chan string {
	read := make(chan string)
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			select {
			case read <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return read
}
