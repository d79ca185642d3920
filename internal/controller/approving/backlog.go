package approving

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The bounds of the wait until a request's permission is checked again.
const (
	minWait = time.Second
	maxWait = 30 * time.Minute
)

// backlog remembers the requests that will be checked again. Each of them has an entry in
// the queue.
type backlog struct {
	mu      sync.Mutex
	entries map[string]entry // by name
}

type entry struct {
	uid   types.UID
	since time.Time
	// reportedReason is the last reported reason for waiting.
	reportedReason string
}

func newBacklog() *backlog { return &backlog{entries: map[string]entry{}} }

// add records that c has to wait and the reason. It returns the time until the next check
// of c, and whether the reason is new.
func (w *backlog) add(c *csr, reason string, now time.Time) (wait time.Duration, news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.entries[c.Name]
	if s.uid != c.UID {
		s = entry{uid: c.UID, since: now}
	}
	news = s.reportedReason != reason
	s.reportedReason = reason
	w.entries[c.Name] = s
	return waitAfter(now.Sub(s.since)), news
}

// remove forgets a request.
func (w *backlog) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, name)
}

// waitAfter returns the next wait. Who gets the permission late
// waits for at most another quarter of that time. This makes about eighty
// checks a day.
func waitAfter(waited time.Duration) time.Duration {
	return min(max(waited/4, minWait), maxWait)
}
