package requestsign

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/issuing"
)

// waiting remembers which requests wait for which objects. It is safe for
// concurrent use.
type waiting struct {
	mu sync.Mutex
	// objects are by request, requests by object; mu guards both.
	objects  map[types.NamespacedName][]issuing.Reference
	requests map[issuing.Reference]map[types.NamespacedName]bool
}

func newWaiting() *waiting {
	return &waiting{
		objects:  map[types.NamespacedName][]issuing.Reference{},
		requests: map[issuing.Reference]map[types.NamespacedName]bool{},
	}
}

// put notes which objects a request needs. It is to be called before these are
// read: a change in between is not missed then.
func (w *waiting) put(request types.NamespacedName, objects []issuing.Reference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(request)
	w.objects[request] = objects
	for _, object := range objects {
		if w.requests[object] == nil {
			w.requests[object] = map[types.NamespacedName]bool{}
		}
		w.requests[object][request] = true
	}
}

// forget notes that a request waits no more.
func (w *waiting) forget(request types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(request)
}

// remove needs mu.
func (w *waiting) remove(request types.NamespacedName) {
	for _, object := range w.objects[request] {
		if delete(w.requests[object], request); len(w.requests[object]) == 0 {
			delete(w.requests, object)
		}
	}
	delete(w.objects, request)
}

// of returns the requests that wait for an object.
func (w *waiting) of(object issuing.Reference) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.requests[object]))
}

// all returns the requests that wait for any object.
func (w *waiting) all() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.objects))
}

// follow returns a source of work: with each change of an object come the
// requests that wait for it.
func (w *waiting) follow(changes issuing.Changes) func(context.Context, queue) error {
	return func(ctx context.Context, q queue) error {
		add := func(requests []types.NamespacedName) {
			for _, request := range requests {
				q.Add(reconcile.Request{NamespacedName: request})
			}
		}
		changes.Run(ctx, func(object issuing.Reference) { add(w.of(object)) }, func() { add(w.all()) })
		return nil
	}
}
