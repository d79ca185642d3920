package issuer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/outcome"
)

// failing records, for the requests of one API, since when Sign has returned
// only errors. A new process starts without records, because a controller that
// did not run has not tried. It is safe for concurrent use.
type failing struct {
	mu sync.Mutex
	by map[types.NamespacedName]failure // mu guards it
}

type failure struct {
	uid   types.UID // of the request
	since time.Time
}

func newFailing() *failing { return &failing{by: map[types.NamespacedName]failure{}} }

// since returns the time of the first of the consecutive failures, or now if
// there was none.
func (f *failing) since(request client.Object, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first, ok := f.by[client.ObjectKeyFromObject(request)]; ok && first.uid == request.GetUID() {
		return first.since
	}
	return now
}

// note records the outcome of a request.
func (f *failing) note(request client.Object, o outcome.Outcome, now time.Time) {
	key := client.ObjectKeyFromObject(request)
	if o.Reason != reasonRetried {
		f.end(key)
		return
	}
	since := f.since(request, now)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.by[key] = failure{uid: request.GetUID(), since: since}
}

// end removes the record of a request that has another answer or was deleted.
func (f *failing) end(request types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, request)
}
