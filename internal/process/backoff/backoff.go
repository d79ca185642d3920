// Package backoff computes how long to wait after failures.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait after failures in a row: First after the first
// one, after each further one twice as long, and Most at most.
type Backoff struct{ First, Most time.Duration }

// After returns the wait after that many failures; less than one counts as one.
func (b Backoff) After(failures int) time.Duration {
	wait := min(b.First, b.Most)
	for ; failures > 1 && wait < b.Most; failures-- {
		wait += min(wait, b.Most-wait) // twice as long, without an overflow
	}
	return wait
}

// Jitter returns a random duration from 0 up to, but not including, a bound,
// which is positive. It spreads what would otherwise happen at one moment.
type Jitter func(bound time.Duration) time.Duration

// Random is a Jitter.
func Random(bound time.Duration) time.Duration { return rand.N(bound) }
