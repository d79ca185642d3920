package approve

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long a request waits until permission is asked for again.
const (
	minWait = time.Second
	maxWait = 30 * time.Minute
)

// backlog remembers the requests that will be looked at again. Whoever is
// in it has an entry in the queue, which ends in leave.
type backlog struct {
	mu      sync.Mutex
	entries map[string]entry // by name
}

type entry struct {
	uid   types.UID
	since time.Time
	// told is the reason that was given for waiting.
	told string
}

func newBacklog() *backlog { return &backlog{entries: map[string]entry{}} }

// enter notes that c has to wait, for a reason, and returns for how long
// before it is looked at again and whether the reason is new.
func (w *backlog) enter(c *csr, reason string, now time.Time) (wait time.Duration, news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.entries[c.Name]
	if s.uid != c.UID {
		s = entry{uid: c.UID, since: now}
	}
	news = s.told != reason
	s.told = reason
	w.entries[c.Name] = s
	return waitAfter(now.Sub(s.since)), news
}

// leave forgets a request.
func (w *backlog) leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, name)
}

// waitAfter makes somebody who was given a permission late wait for a quarter
// of the delay at most. That asks some eighty times in a day.
func waitAfter(waited time.Duration) time.Duration {
	return min(max(waited/4, minWait), maxWait)
}
