package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		reason string
		err    error
		code   int
		want   string
	}{
		{"all is well", nil, OK, ""},
		{"any error is one line", fmt.Errorf("doing it: %w", boom), General, "Error: doing it: boom\n"},
		{"advice comes below", WithNext(boom, "Try this:", "  that"), General, "Error: boom\nTry this:\n  that\n"},
		{"more specific advice comes first", WithNext(fmt.Errorf("more: %w", WithNext(boom, "one")), "two"), General, "Error: more: boom\none\ntwo\n"},
		{"added advice keeps the code", WithNext(&Error{Err: boom, Code: Denied}, "two"), Denied, "Error: boom\ntwo\n"},
		{"wrong usage points to the help", UsageError("certplane request", boom), Usage, "Error: boom\nSee 'certplane request --help'.\n"},
		{"an interrupt is no failure", fmt.Errorf("waiting: %w", context.Canceled), Interrupted, "Error: waiting: context canceled\n"},
		{"nor is it with advice", WithNext(context.Canceled, "again"), Interrupted, "Error: context canceled\nagain\n"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var out strings.Builder
			if got := Report(&out, tt.err); got != tt.code {
				t.Errorf("code = %d, want %d", got, tt.code)
			}
			if out.String() != tt.want {
				t.Errorf("output = %q, want %q", out.String(), tt.want)
			}
		})
	}
}
