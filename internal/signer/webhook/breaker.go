package webhook

import "time"

const (
	// tripAfter is the number of different consecutive requests without an
	// answer after which the breaker opens. They must be different, because one
	// request that an endpoint cannot process must not stop the others.
	tripAfter = 5
	// openFor is how long the breaker is open until a single call is let
	// through as a probe.
	openFor = 10 * time.Second
	// probeTime is how long other calls wait while the probe is under way.
	probeTime = time.Second
)

// breaker is a circuit breaker as a state machine: closed (calls pass), open
// (no call passes) and half-open (one call passes, as a probe). It takes the
// time as an argument and is not safe for concurrent use.
type breaker struct {
	// silent are the requests without an answer since the last answer.
	silent map[string]struct{}
	// openUntil is when an open one becomes half-open; zero if it is closed.
	openUntil time.Time
	// probing is set while the one call of the half-open state is under way.
	probing bool
}

// pass allows one call. The caller must return it with leave.
type pass struct{ probe bool }

// health is what the result of a call means for the endpoint.
type health int

const (
	// answered: the endpoint works, whatever its answer.
	answered health = iota
	// unanswered: the endpoint does not work.
	unanswered
	// abandoned: the caller gave up, which means nothing for the endpoint.
	abandoned
)

// open reports whether the breaker is not closed.
func (b *breaker) open() bool { return !b.openUntil.IsZero() }

// enter lets a call pass, or returns how long to wait before the next attempt.
func (b *breaker) enter(now time.Time) (p pass, wait time.Duration, ok bool) {
	switch {
	case !b.open():
		return pass{}, 0, true
	case now.Before(b.openUntil):
		return pass{}, b.openUntil.Sub(now), false
	case b.probing:
		return pass{}, probeTime, false
	default:
		b.probing = true
		return pass{probe: true}, 0, true
	}
}

// leave takes back the pass of a call for the request uid.
func (b *breaker) leave(p pass, h health, uid string, now time.Time) {
	if p.probe {
		b.probing = false
	}
	switch h {
	case answered:
		*b = breaker{probing: b.probing}
	case unanswered:
		b.unanswered(p, uid, now)
	}
}

// unanswered leaves an open breaker alone unless the call was the probe: other
// calls began before it opened and give no new information.
func (b *breaker) unanswered(p pass, uid string, now time.Time) {
	if b.silent == nil {
		b.silent = map[string]struct{}{}
	}
	if len(b.silent) < tripAfter {
		b.silent[uid] = struct{}{}
	}
	if p.probe || (!b.open() && len(b.silent) >= tripAfter) {
		b.openUntil = now.Add(openFor)
	}
}
