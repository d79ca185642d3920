package worker

import (
	"context"
	"errors"
	"testing"
)

// What passes is tried again without a limit; anything else, and the end of the context,
// ends it.
func TestPatiently(t *testing.T) {
	away, wrong := errors.New("away"), errors.New("wrong")
	passes := func(err error) bool { return errors.Is(err, away) }
	for _, tc := range []struct {
		reason  string
		answers []error
		want    error
	}{
		{"it works", []error{nil}, nil},
		{"it is away first", []error{away, away, nil}, nil},
		{"it is wrong", []error{away, wrong}, wrong},
	} {
		calls := 0
		err := Patiently(t.Context(), "it", passes, func(context.Context) error {
			calls++
			return tc.answers[calls-1]
		})
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || calls != len(tc.answers) {
			t.Errorf("%s: %v after %d calls", tc.reason, err, calls)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	err := Patiently(ctx, "it", passes, func(context.Context) error {
		stop()
		return away
	})
	if !errors.Is(err, away) {
		t.Errorf("after the end: %v", err)
	}
}
