package clean

import (
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
	since, known := w.since[request]
	switch {
	case recorded || known && now.Sub(since) >= mostHeld:
		delete(w.since, request)
		return false
	case !known:
		w.since[request] = now
	}
	return true
}
