package webhook

import "time"

const (
	// tripAfter is how many different requests in a row an endpoint has to
	// leave without an answer until it is left alone. Different ones, because
	// one request that an endpoint cannot digest must not stop the others.
	tripAfter = 5
	// openFor is how long it is left alone until a single call tries again.
	openFor = 10 * time.Second
	// probeTime is how long others wait while that call is under way.
	probeTime = time.Second
)

// breaker is a circuit breaker as a state machine: closed (calls pass), open
// (none does) and half-open (one does, to see). It takes the time as an
// argument and is not safe for concurrent use.
type breaker struct {
	// silent are the requests that got no answer since the last that did.
	silent map[string]struct{}
	// openUntil is when an open one becomes half-open; zero if it is closed.
	openUntil time.Time
	// probing tells that the one call of the half-open state is under way.
	probing bool
}

// pass allows one call. It has to be given back.
type pass struct{ probe bool }

// health is what a call says about the endpoint.
type health int

const (
	// answered: the endpoint works, whatever it said.
	answered health = iota
	// unanswered: it does not.
	unanswered
	// abandoned: the caller gave up, which says nothing.
	abandoned
)

// open reports whether the endpoint is not trusted to work.
func (b *breaker) open() bool { return !b.openUntil.IsZero() }

// enter lets a call pass, or says how long to wait before asking again.
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

// unanswered leaves an open breaker alone unless the call was the probe: the
// others began before it opened and tell nothing new.
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
