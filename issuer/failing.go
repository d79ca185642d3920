package issuer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/answer"
)

// failing remembers since when Sign goes wrong with requests of one API, without
// an answer between. A process that begins knows nothing of that: a controller
// that was away has not tried. It is safe for concurrent use.
type failing struct {
	mu sync.Mutex
	by map[types.NamespacedName]failure // mu guards it
}

type failure struct {
	uid   types.UID // of the request
	since time.Time
}

func newFailing() *failing { return &failing{by: map[types.NamespacedName]failure{}} }

// since is when the first of the failures in a row was: now, if there was none.
func (f *failing) since(request client.Object, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first, ok := f.by[client.ObjectKeyFromObject(request)]; ok && first.uid == request.GetUID() {
		return first.since
	}
	return now
}

// note takes down what became of a request.
func (f *failing) note(request client.Object, o answer.Outcome, now time.Time) {
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

// end forgets a request that has another answer or is gone.
func (f *failing) end(request types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, request)
}
