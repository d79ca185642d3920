package issuer

import (
	"sync"
	"time"
)

// How long something with which a call has failed waits for the next one, if
// nothing tells of a change before: the first time, and at most.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
)

// pauseAfter is how long to wait after that many failures in a row.
func pauseAfter(failures int) time.Duration {
	pause := firstPause
	for ; failures > 1 && pause < lastPause; failures-- {
		pause *= 2
	}
	return min(pause, lastPause)
}

// faults are what Sign has said against issuers that Check had found good. It
// is safe for concurrent use.
type faults struct {
	mu sync.Mutex
	by map[who]fault // mu guards it
}

type fault struct {
	err        error
	generation int64 // of the issuer
	until      time.Time
	count      int // since it has signed last
}

func newFaults() *faults { return &faults{by: map[who]fault{}} }

// put notes that an issuer cannot sign, and until when nobody is to try.
func (f *faults) put(issuer who, generation int64, err error, now time.Time) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.by[issuer]
	if last.generation != generation {
		last.count = 0
	}
	if last.count > 0 && now.Before(last.until) {
		return last // several requests have met the same fault
	}
	next := fault{err: err, generation: generation, count: last.count + 1, until: now.Add(pauseAfter(last.count + 1))}
	f.by[issuer] = next
	return next
}

// of returns the fault because of which an issuer is not to be tried now. A
// newer spec can have mended it.
func (f *faults) of(issuer who, generation int64, now time.Time) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.by[issuer]
	return last, ok && last.generation == generation && now.Before(last.until)
}

// forget notes that an issuer has signed or is gone.
func (f *faults) forget(issuer who) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, issuer)
}
