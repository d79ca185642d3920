// Package breaker leaves a server alone for a while that does not answer.
package breaker

import "time"

const (
	// TripAfter is the number of different consecutive requests without an
	// answer after which the breaker opens. They must be different, because one
	// request that a server cannot process must not stop the others.
	TripAfter = 5
	// OpenFor is how long the breaker is open until a single call is let
	// through as a probe.
	OpenFor = 10 * time.Second
	// probeTime is how long other calls wait while the probe is under way.
	probeTime = time.Second
)

// Breaker is a circuit breaker as a state machine: closed (calls pass), open
// (no call passes) and half-open (one call passes, as a probe). It takes the
// time as an argument and is not safe for concurrent use.
type Breaker struct {
	// silent are the requests without an answer since the last answer.
	silent map[string]struct{}
	// openUntil is when an open one becomes half-open; zero if it is closed.
	openUntil time.Time
	// probing is set while the one call of the half-open state is under way.
	probing bool
}

// Pass allows one call. The caller must return it with Leave.
type Pass struct{ probe bool }

// Health is the state of the server according to the result of a call.
type Health int

const (
	// Answered: the server works, with any answer.
	Answered Health = iota
	// Unanswered: the server does not work.
	Unanswered
	// Abandoned: the caller gave up, which does not indicate the server's state.
	Abandoned
)

// Open reports whether the breaker is not closed.
func (b *Breaker) Open() bool { return !b.openUntil.IsZero() }

// Silent is the number of different requests without an answer since the last answer, up to
// TripAfter.
func (b *Breaker) Silent() int { return len(b.silent) }

// Enter lets a call pass, or returns how long to wait before the next attempt.
func (b *Breaker) Enter(now time.Time) (p Pass, wait time.Duration, ok bool) {
	switch {
	case !b.Open():
		return Pass{}, 0, true
	case now.Before(b.openUntil):
		return Pass{}, b.openUntil.Sub(now), false
	case b.probing:
		return Pass{}, probeTime, false
	default:
		b.probing = true
		return Pass{probe: true}, 0, true
	}
}

// Leave takes back the pass of a call for the request uid.
func (b *Breaker) Leave(p Pass, h Health, uid string, now time.Time) {
	if p.probe {
		b.probing = false
	}
	switch h {
	case Answered:
		*b = Breaker{probing: b.probing}
	case Unanswered:
		b.unanswered(p, uid, now)
	}
}

// unanswered leaves an open breaker alone unless the call was the probe: other
// calls began before it opened and give no new information.
func (b *Breaker) unanswered(p Pass, uid string, now time.Time) {
	if b.silent == nil {
		b.silent = map[string]struct{}{}
	}
	if len(b.silent) < TripAfter {
		b.silent[uid] = struct{}{}
	}
	if p.probe || (!b.Open() && len(b.silent) >= TripAfter) {
		b.openUntil = now.Add(OpenFor)
	}
}
