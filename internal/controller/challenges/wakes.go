package challenges

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
)

// followSecrets wakes Challenges whose solver reads a changed Secret.
func (r *reconciler) followSecrets(ctx context.Context, q worker.Queue) error {
	go r.Secrets.Run(ctx, changewatch.Listener{
		Changed: func(secret types.NamespacedName, _ string) { r.secretChanged(q, secret) },
		Missed:  func() { r.wake(q, func(e *entry) bool { return len(e.secrets) > 0 }) },
	})
	return nil
}

func (r *reconciler) secretChanged(q worker.Queue, secret types.NamespacedName) {
	r.wake(q, func(e *entry) bool { return e.reads(secret) })
}

// issuerChanged wakes the Challenges of an issuer.
func (r *reconciler) issuerChanged() handler.EventHandler {
	return allEvents(func(issuer client.Object, q worker.Queue) {
		key := issuerKey(client.ObjectKeyFromObject(issuer))
		r.wake(q, func(e *entry) bool { return e.issuer == key })
	})
}

func (r *reconciler) wake(q worker.Queue, meant func(*entry) bool) {
	for _, key := range r.memories.wake(meant) {
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

// allEvents returns a handler that calls changed for each object that was created, changed
// or deleted.
func allEvents(changed func(client.Object, worker.Queue)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e createEvent, q worker.Queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e updateEvent, q worker.Queue) { changed(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e deleteEvent, q worker.Queue) { changed(e.Object, q) },
	}
}
