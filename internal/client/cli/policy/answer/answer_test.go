package answer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
)

func TestCodes(t *testing.T) {
	for _, tt := range []struct {
		reason string
		err    error
		want   int
	}{
		{"all is good", nil, 0},
		{"the answer is no", answer.No("%d denied", 1), 1},
		{"the same within another error", fmt.Errorf("x: %w", answer.No("no")), 1},
		{"any other error", errors.New("no such file"), 2},
		{"one with advice", exit.WithNext(errors.New("no server"), "start one"), 2},
		{"an interrupt", context.Canceled, exit.Interrupted},
	} {
		if got := exit.Report(io.Discard, answer.OrUnknown(tt.err)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.reason, got, tt.want)
		}
	}
}
