package issuer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/backoff"
)

// How long something with which a call has failed waits for the next one, if
// nothing tells of a change before: the first time, and at most.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
)

var pauses = backoff.Backoff{First: firstPause, Most: lastPause}

// faults are what Sign has said against issuers that Check had found good. It
// is safe for concurrent use.
type faults struct {
	mu sync.Mutex
	by map[who]fault // mu guards it
}

type fault struct {
	err        error
	uid        types.UID // of the issuer
	generation int64     // of the issuer
	until      time.Time
	count      int // since it has signed last
}

// about reports whether a fault is that of an issuer as it is now. A newer spec can
// have fixed it, and another object by the same name never had it.
func (f fault) about(issuer Issuer) bool {
	return f.uid == issuer.GetUID() && f.generation == issuer.GetGeneration()
}

func newFaults() *faults { return &faults{by: map[who]fault{}} }

// put notes that an issuer cannot sign, and until when nobody is to try.
func (f *faults) put(w who, issuer Issuer, err error, now time.Time) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.by[w]
	if !last.about(issuer) {
		last.count = 0
	}
	if last.count > 0 && now.Before(last.until) {
		return last // several requests have met the same fault
	}
	next := fault{
		err: err, uid: issuer.GetUID(), generation: issuer.GetGeneration(),
		count: last.count + 1, until: now.Add(pauses.After(last.count + 1)),
	}
	f.by[w] = next
	return next
}

// of returns the fault because of which an issuer is not to be tried now.
func (f *faults) of(w who, issuer Issuer, now time.Time) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.by[w]
	return last, ok && last.about(issuer) && now.Before(last.until)
}

// forget notes that an issuer has signed or is gone.
func (f *faults) forget(issuer who) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, issuer)
}
