package requestsign

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/process/worker"
)

// waiting records which requests wait for which objects. It is safe for
// concurrent use.
type waiting struct {
	mu sync.Mutex
	// objects are by request, requests by object; mu guards both.
	objects  map[types.NamespacedName][]issuing.Reference
	requests map[issuing.Reference]map[types.NamespacedName]bool
	// said are the causes for which requests waited at the time of their last Events.
	said worker.Said[types.NamespacedName, cause]
}

type cause struct {
	uid   types.UID
	class string
}

func newWaiting() *waiting {
	return &waiting{
		objects:  map[types.NamespacedName][]issuing.Reference{},
		requests: map[issuing.Reference]map[types.NamespacedName]bool{},
	}
}

// put records which objects a request needs. It must be called before these are
// read, so that a change in between is not missed.
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

// forget records that a request waits no more.
func (w *waiting) forget(request types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(request)
	w.said.News(request)
}

// remove removes a request; the caller must hold mu.
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

// follow returns a source of work: each change of an object triggers the
// requests that wait for it.
func (w *waiting) follow(changes issuing.Changes) func(context.Context, worker.Queue) error {
	return func(ctx context.Context, q worker.Queue) error {
		add := func(requests []types.NamespacedName) {
			for _, request := range requests {
				q.Add(reconcile.Request{NamespacedName: request})
			}
		}
		changes.Run(ctx, func(object issuing.Reference) { add(w.of(object)) }, func() { add(w.all()) })
		return nil
	}
}
