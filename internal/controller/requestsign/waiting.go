package requestsign

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/secretwatch"
)

// waiting remembers which requests wait for which Secret. It is safe for
// concurrent use.
type waiting struct {
	mu sync.Mutex
	// secrets are by request, requests by Secret; mu guards both.
	secrets  map[types.NamespacedName]types.NamespacedName
	requests map[types.NamespacedName]map[types.NamespacedName]bool
}

func newWaiting() *waiting {
	return &waiting{
		secrets:  map[types.NamespacedName]types.NamespacedName{},
		requests: map[types.NamespacedName]map[types.NamespacedName]bool{},
	}
}

// put notes that a request needs a Secret. It is to be called before that is
// read: a change in between is not missed then.
func (w *waiting) put(request, secret types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(request)
	w.secrets[request] = secret
	if w.requests[secret] == nil {
		w.requests[secret] = map[types.NamespacedName]bool{}
	}
	w.requests[secret][request] = true
}

// forget notes that a request waits no more.
func (w *waiting) forget(request types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(request)
}

// remove needs mu.
func (w *waiting) remove(request types.NamespacedName) {
	secret, ok := w.secrets[request]
	if !ok {
		return
	}
	delete(w.secrets, request)
	if delete(w.requests[secret], request); len(w.requests[secret]) == 0 {
		delete(w.requests, secret)
	}
}

// of returns the requests that wait for a Secret.
func (w *waiting) of(secret types.NamespacedName) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.requests[secret]))
}

// all returns the requests that wait for any Secret.
func (w *waiting) all() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.secrets))
}

// follow returns a source of work: with each change of a Secret come the
// requests that wait for it.
func (w *waiting) follow(secrets *secretwatch.Watcher) func(context.Context, queue) error {
	return func(ctx context.Context, q queue) error {
		add := func(requests []types.NamespacedName) {
			for _, request := range requests {
				q.Add(reconcile.Request{NamespacedName: request})
			}
		}
		go secrets.Run(ctx, secretwatch.Listener{
			Changed: func(secret types.NamespacedName) { add(w.of(secret)) },
			Missed:  func() { add(w.all()) },
		})
		return nil
	}
}
