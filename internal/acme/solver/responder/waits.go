package responder

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxWait is how long a question waits for a challenge that is not in the index yet.
	// Another server may have begun it a moment ago.
	maxWait = 2 * time.Second
	// maxWaits is how many questions can wait at once, and maxWaitsFrom how many
	// of one network, so that one client does not use all.
	maxWaits, maxWaitsFrom = 64, 16
)

// waits counts the questions that wait.
type waits struct {
	mu    sync.Mutex
	all   int
	byNet map[netip.Prefix]int // has no entry that is 0
}

// enter reports whether one more question may wait. Then leave must be called.
func (w *waits) enter(from netip.Prefix) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= maxWaits || from.IsValid() && w.byNet[from] >= maxWaitsFrom {
		return false
	}
	if w.byNet == nil {
		w.byNet = map[netip.Prefix]int{}
	}
	w.all++
	w.byNet[from]++
	return true
}

func (w *waits) leave(from netip.Prefix) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.byNet[from]--; w.byNet[from] == 0 {
		delete(w.byNet, from)
	}
}
