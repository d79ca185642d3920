package venafi

import (
	"sync"
	"time"
)

const (
	// firstPoll and lastPoll are the first and the longest pause between two attempts
	// to retrieve a certificate.
	firstPoll = 2 * time.Second
	lastPoll  = time.Minute
	// forgotten is after how long without an attempt a request is forgotten, and
	// maxPickups how many requests are remembered until some are.
	forgotten  = 10 * time.Minute
	maxPickups = 1000
)

// pickups remember the requests whose certificates have been ordered. It is safe
// for concurrent use.
type pickups struct {
	mu   *sync.Mutex        // guards what follows
	byID map[string]*pickup // by the UID of the request
}

// pickup is a certificate that is to be retrieved.
type pickup struct {
	// id identifies it on the server; empty if the request has it in its annotation.
	id string
	// pause is the wait before the next attempt, which is at next.
	pause time.Duration
	next  time.Time
	// why is the result of the last attempt.
	why     string
	touched time.Time
}

func newPickups() pickups { return pickups{mu: &sync.Mutex{}, byID: map[string]*pickup{}} }

// of returns the entry of a request. The caller must hold mu.
func (p pickups) of(uid string, now time.Time) *pickup {
	known := p.byID[uid]
	if known == nil {
		if len(p.byID) >= maxPickups {
			p.sweep(now)
		}
		known = &pickup{}
		p.byID[uid] = known
	}
	known.touched = now
	return known
}

// sweep forgets requests that were deleted, but no certificate whose identifier is
// nowhere else, unless a day has gone. The caller must hold mu.
func (p pickups) sweep(now time.Time) {
	for uid, one := range p.byID {
		if age := now.Sub(one.touched); age > forgotten && one.id == "" || age > patience {
			delete(p.byID, uid)
		}
	}
}

// unstored returns the identifier that a request does not have yet; empty if there
// is none.
func (p pickups) unstored(uid string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byID[uid]; known != nil {
		return known.id
	}
	return ""
}

// put remembers an identifier until it is stored.
func (p pickups) put(uid, id string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(uid, now).id = id
}

// due returns the time until the next attempt to retrieve a certificate, and the result of
// the last one. Every change of the request causes an earlier attempt.
func (p pickups) due(uid string, now time.Time) (wait time.Duration, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(uid, now)
	return known.next.Sub(now), known.why
}

// later notes that a certificate has not been issued yet. It returns how long to
// wait: each time twice as long.
func (p pickups) later(uid, why string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(uid, now)
	known.pause = min(max(2*known.pause, firstPoll), lastPoll)
	known.next, known.why = now.Add(known.pause), why
	return known.pause
}

func (p pickups) forget(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, uid)
}
