package crash

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest"
)

const (
	// takeOver is how long nothing is signed after the death of the server that
	// signed: the rest of its lease, and the time until another server checks it,
	// as leaderElection documents.
	takeOver = lease + retryPeriod*44/10
	// slack is additional time for a busy machine.
	slack = 10 * time.Second
)

// Either of two servers is lost under load, and not restarted: the other one
// serves, and signs after a lease at most.
func TestLosingOneOfTwo(t *testing.T) {
	w := newWorld(t, 2, lease, rand.New(rand.NewPCG(1, 1)))
	leader, other := w.leader()
	w.underLoad(func() {
		for range 2 {
			w.lose(other, "the one that does not sign", slack)
			w.lose(leader, "the one that signs", takeOver+slack)
			leader, other = other, leader
		}
	})
}

// Servers are stopped and started one after the other, as for an upgrade. They
// release the lease, so the other server does not wait for its end, which is
// far away.
func TestRollingUpgrade(t *testing.T) {
	const far = 5 * time.Minute
	w := newWorld(t, 2, far, rand.New(rand.NewPCG(1, 1)))
	w.underLoad(func() {
		for range 2 {
			for _, h := range w.hosts[1:] {
				w.settled()
				w.history.forgetPause()
				h.stop(t)
				w.load.set(h.server, nil)
				w.await("certificates", w.history.count, 10)
				t.Logf("stopping server %d: nothing was signed for %v", h.server, w.history.pause().Round(time.Millisecond))
				w.start(h)
			}
		}
	})
}

// leader returns the host that signs at first, and the other.
func (w *world) leader() (leader, other *host) {
	w.Helper()
	servers := w.hosts[1:]
	apitest.Eventually(w.T, "a server signs", func() bool {
		for i, h := range servers {
			if h.signs() {
				leader, other = h, servers[1-i]
			}
		}
		return leader != nil
	})
	return leader, other
}

// signs reports whether a server that has just been started has reported that
// it has the lease.
func (h *host) signs() bool {
	return strings.Contains(h.log.text(), "The controllers work on this server from now on")
}

// settled waits until clients are served and requests are signed.
func (w *world) settled() {
	w.Helper()
	w.await("writes", w.load.count, burst)
	w.await("certificates", w.history.count, 10)
}

// lose kills a host and starts it again once the other one has done its work
// for a while. Requests must not remain unsigned for longer than most.
func (w *world) lose(h *host, which string, most time.Duration) {
	w.Helper()
	w.settled()
	w.history.forgetPause()
	w.kill(h)
	w.await("certificates", w.history.count, 10)
	gap := w.history.pause()
	w.Logf("losing %s: nothing was signed for %v", which, gap.Round(time.Millisecond))
	if gap > most {
		w.Errorf("losing %s: nothing was signed for %v, more than %v", which, gap, most)
	}
	w.start(h)
}
