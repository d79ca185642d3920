package venafi

import (
	"slices"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/process/notify"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// turnTime is how long a request keeps its turn, or its place in the queue,
// without another attempt: it was deleted, or its issuer was.
const turnTime = 3 * time.Minute

// turns admit one request at a time for each object on a server. If a second request for the
// same object arrives, a server resets the first one and then has one certificate for both.
// Requests are admitted in the order of their first attempts. It is safe for concurrent use.
type turns struct {
	// next tells whose turn has come, by the UID of the request.
	next *notify.List[string]

	mu     *sync.Mutex // guards what follows
	queues map[venafi.Place][]waiter
	places map[string]venafi.Place // by UID
}

// waiter is a request in a queue; the first one has its turn.
type waiter struct {
	uid     string
	touched time.Time
}

func newTurns() turns {
	return turns{next: &notify.List[string]{}, mu: &sync.Mutex{}, queues: map[venafi.Place][]waiter{}, places: map[string]venafi.Place{}}
}

// take reports whether a request has its turn. If not, it is in the queue from now
// on.
func (t turns) take(at venafi.Place, uid string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was, ok := t.places[uid]; ok && was != at { // the issuer has changed
		t.remove(was, uid)
	}
	queue := slices.DeleteFunc(t.queues[at], func(w waiter) bool {
		over := w.uid != uid && now.Sub(w.touched) > turnTime
		if over {
			delete(t.places, w.uid)
		}
		return over
	})
	i := slices.IndexFunc(queue, func(w waiter) bool { return w.uid == uid })
	if i < 0 {
		i, queue = len(queue), append(queue, waiter{uid: uid})
		t.places[uid] = at
	}
	queue[i].touched = now
	t.queues[at] = queue
	return i == 0
}

// leave ends the turn of a request, or its wait for one. It may be called for requests
// without a turn.
func (t turns) leave(uid string) {
	t.mu.Lock()
	next := ""
	if at, ok := t.places[uid]; ok {
		next = t.remove(at, uid)
	}
	t.mu.Unlock()
	if next != "" {
		t.next.Tell(next)
	}
}

// remove takes a request out of a queue. It returns the request whose turn has
// come by that, if any. The caller must hold mu.
func (t turns) remove(at venafi.Place, uid string) (next string) {
	delete(t.places, uid)
	queue := t.queues[at]
	had := len(queue) > 0 && queue[0].uid == uid
	queue = slices.DeleteFunc(queue, func(w waiter) bool { return w.uid == uid })
	if len(queue) == 0 {
		delete(t.queues, at)
		return ""
	}
	t.queues[at] = queue
	if had {
		return queue[0].uid
	}
	return ""
}
