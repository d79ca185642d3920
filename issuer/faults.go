package issuer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/process/backoff"
)

// The first and the longest pause after a failed call, if no change of the
// object is seen before.
const (
	firstPause = engine.FirstPause
	lastPause  = engine.LastPause
)

var pauses = backoff.Backoff{First: firstPause, Most: lastPause}

// faults are the faults that Sign has reported for issuers that had passed
// Check. It is safe for concurrent use.
type faults struct {
	mu sync.Mutex
	by map[who]fault // mu guards it
}

type fault struct {
	err        error
	uid        types.UID // of the issuer
	generation int64     // of the issuer
	until      time.Time
	count      int // since it last signed
}

// about reports whether a fault concerns this version of an issuer. A newer spec can have
// fixed it, and another object with the same name never had it.
func (f fault) about(issuer Issuer) bool {
	return f.uid == issuer.GetUID() && f.generation == issuer.GetGeneration()
}

func newFaults() *faults { return &faults{by: map[who]fault{}} }

// put records that an issuer cannot sign, and until when it is not called.
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

// of returns the fault that keeps an issuer from being called now.
func (f *faults) of(w who, issuer Issuer, now time.Time) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.by[w]
	return last, ok && last.about(issuer) && now.Before(last.until)
}

// forget removes the fault of an issuer that has signed or was deleted.
func (f *faults) forget(issuer who) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, issuer)
}
