package challenge

import (
	"time"

	"github.com/certplane/certplane/internal/process/backoff"
)

// How long to wait after failures.
var (
	// presenting is for errors of solvers, which often need a person.
	presenting = backoff.Backoff{First: 5 * time.Second, Most: 30 * time.Minute}
	// asking is for errors of the CA that are not its last word.
	asking = backoff.Backoff{First: 5 * time.Second, Most: 10 * time.Minute}
	// cleaning is for errors of clean-ups of Challenges that are being deleted.
	cleaning = backoff.Backoff{First: 5 * time.Second, Most: time.Minute}
)

// limited is how long to wait if a CA limits requests without a Retry-After.
const limited = time.Hour

// checkWaits are the waits after failed self checks. The last one repeats.
var checkWaits = []time.Duration{
	2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second,
	30 * time.Second, 40 * time.Second, 50 * time.Second, time.Minute,
}

// pollWaits are the waits between polls. The last one repeats.
var pollWaits = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second}

func (s Situation) checkWait(tries int) time.Duration {
	if s.Rules.CheckPeriod > 0 {
		return s.vary(s.Rules.CheckPeriod)
	}
	return s.vary(nth(checkWaits, tries))
}

// pollAt returns when to poll next. The CA can set that time, within bounds: it cannot
// stop polling altogether.
func (s Situation) pollAt(polls int, retryAfter time.Time) time.Time {
	if retryAfter.After(s.Now) {
		return earliest(retryAfter, s.Now.Add(limited))
	}
	return s.Now.Add(nth(pollWaits, polls))
}

// nth returns the wait after that many failures, from 1 on.
func nth(waits []time.Duration, n int) time.Duration {
	return waits[max(0, min(n, len(waits))-1)]
}

func (s Situation) wait(b backoff.Backoff) func(tries int) time.Duration {
	return func(tries int) time.Duration { return s.vary(b.After(tries)) }
}

// vary makes a wait up to a tenth longer.
func (s Situation) vary(wait time.Duration) time.Duration {
	if s.Jitter == nil || wait < 10 {
		return wait
	}
	return wait + s.Jitter(wait/10)
}
