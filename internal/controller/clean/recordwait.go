package clean

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// mostHeld is how long a request waits for the record of its certificate, lookAgain how
	// often that is checked.
	mostHeld  = 10 * time.Minute
	lookAgain = 10 * time.Second
	// mostWaiting is how many requests are remembered before those are forgotten that were deleted.
	mostWaiting = 10_000
)

// recordWait delays deletions until certificates are recorded. It is safe for concurrent use.
type recordWait struct {
	// recorded is Config.Recorded.
	recorded func(kind string, request types.UID) bool
	clock    clock.PassiveClock
	mu       sync.Mutex // guards since
	// since is when the wait of each request began.
	since map[types.UID]time.Time
}

func newRecordWait(recorded func(string, types.UID) bool, clk clock.PassiveClock) *recordWait {
	return &recordWait{recorded: recorded, clock: clk, since: map[types.UID]time.Time{}}
}

// holds reports whether a request with a certificate has to wait for the record of that.
func (w *recordWait) holds(kind string, request types.UID) bool {
	if w.recorded == nil {
		return false
	}
	recorded, now := w.recorded(kind, request), w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if recorded {
		delete(w.since, request)
		return false
	}
	since, known := w.since[request]
	if !known {
		if len(w.since) >= mostWaiting {
			maps.DeleteFunc(w.since, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= 2*mostHeld })
		}
		w.since[request], since = now, now
	}
	return now.Sub(since) < mostHeld
}
