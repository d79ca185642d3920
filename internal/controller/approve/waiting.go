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

// waitingRoom remembers the requests that will be looked at again. Whoever is
// in it has an entry in the queue, which ends in leave.
type waitingRoom struct {
	mu    sync.Mutex
	seats map[string]seat // by name
}

type seat struct {
	uid   types.UID
	since time.Time
	// told is the reason that was given for waiting.
	told string
}

func newWaitingRoom() *waitingRoom { return &waitingRoom{seats: map[string]seat{}} }

// enter notes that c has to wait, for a reason, and returns for how long
// before it is looked at again and whether the reason is new.
func (w *waitingRoom) enter(c *csr, reason string, now time.Time) (wait time.Duration, news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seats[c.Name]
	if s.uid != c.UID {
		s = seat{uid: c.UID, since: now}
	}
	news = s.told != reason
	s.told = reason
	w.seats[c.Name] = s
	return waitAfter(now.Sub(s.since)), news
}

// leave forgets a request.
func (w *waitingRoom) leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seats, name)
}

// waitAfter makes somebody who was given a permission late wait for a quarter
// of the delay at most. That asks some eighty times in a day.
func waitAfter(waited time.Duration) time.Duration {
	return min(max(waited/4, minWait), maxWait)
}
