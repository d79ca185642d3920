package backoff

import (
	"math"
	"testing"
	"time"
)

func TestAfter(t *testing.T) {
	tests := []struct {
		reason   string
		backoff  Backoff
		failures int
		want     time.Duration
	}{
		{"one failure", Backoff{time.Second, time.Minute}, 1, time.Second},
		{"none that was counted", Backoff{time.Second, time.Minute}, 0, time.Second},
		{"a second one", Backoff{time.Second, time.Minute}, 2, 2 * time.Second},
		{"the sixth", Backoff{time.Second, time.Minute}, 6, 32 * time.Second},
		{"the seventh is bounded", Backoff{time.Second, time.Minute}, 7, time.Minute},
		{"very many", Backoff{time.Second, time.Minute}, math.MaxInt, time.Minute},
		{"a bound below the first wait", Backoff{time.Minute, time.Second}, 3, time.Second},
		{"no overflow", Backoff{time.Second, math.MaxInt64}, 100, math.MaxInt64},
		{"always the same", Backoff{time.Second, time.Second}, 9, time.Second},
		{"no wait", Backoff{0, 0}, 9, 0},
	}
	for _, tc := range tests {
		if got := tc.backoff.After(tc.failures); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
		}
	}
}

func TestRandom(t *testing.T) {
	for range 100 {
		if got := Random(3); got < 0 || got > 2 {
			t.Fatalf("Random(3) = %d", got)
		}
	}
}
