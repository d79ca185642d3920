package clean

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/retention"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// pause is how long the requests of one requester are gathered before they
	// are counted, so that a flood of requests is not counted once for each of
	// them.
	pause = time.Second
	// batch is how many requests are deleted at once, and deleters is how many of
	// them are deleted concurrently: that is faster than a client can make them.
	batch    = 5000
	deleters = 32
	// tellEvery is the interval between Events about a requester with too many requests.
	tellEvery = 10 * time.Minute
)

// quota limits the number of requests of each requester.
type quota struct {
	cache    client.Reader
	clock    clock.PassiveClock
	limit    retention.Cap
	index    *requesterIndex
	deleter  *deleter
	reported worker.Seldom[string] // by requester
}

// schedule keeps the index up to date. It queues requesters to be counted a
// while after they have made a request.
func (r *quota) schedule() handler.EventHandler {
	enter := func(c *csr, q workqueue) {
		if r.index.add(c) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: c.Spec.Username}}, pause)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue) { enter(e.Object.(*csr), q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue) {
			// After a gap in the watch, this can be another object with the same
			// name.
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				r.index.remove(e.ObjectOld.(*csr))
				enter(e.ObjectNew.(*csr), q)
				return
			}
			r.index.add(e.ObjectNew.(*csr)) // its size has changed
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue) { r.index.remove(e.Object.(*csr)) },
	}
}

// Reconcile deletes the requests that one requester has too many of.
func (r *quota) Reconcile(ctx context.Context, requester reconcile.Request) (reconcile.Result, error) {
	requests, err := r.requestsOf(ctx, requester.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.clock.Now()
	surplus, again := retention.Surplus(requests, now, r.limit)
	if len(surplus) > 0 {
		r.tell(surplus[0], excessOf(requests, r.limit), now)
	}
	rest := surplus[min(batch, len(surplus)):]
	if err := r.sweep(ctx, surplus[:len(surplus)-len(rest)], excessOf(requests, r.limit)); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case len(rest) > 0:
		return reconcile.Result{RequeueAfter: pause}, nil
	case !again.IsZero():
		return reconcile.Result{RequeueAfter: again.Sub(now)}, nil
	default:
		return reconcile.Result{}, nil
	}
}

// requestsOf returns the requests of one requester if there are too many of
// them. They are the cache's objects and must not be modified.
func (r *quota) requestsOf(ctx context.Context, requester string) ([]*csr, error) {
	var requests []*csr
	for _, name := range r.index.over(r.limit, requester) {
		c := &csr{}
		err := r.cache.Get(ctx, client.ObjectKey{Name: name}, c, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("counting the requests of %s: %w", requester, err)
		case c.Spec.Username == requester:
			requests = append(requests, c)
		}
	}
	return requests, nil
}

// sweep deletes requests, several at a time. A failure does not stop it.
func (r *quota) sweep(ctx context.Context, surplus []*csr, excess string) error {
	if len(surplus) == 0 {
		return nil
	}
	verdict := retention.Verdict{
		Reason:  retention.Excess,
		Message: "its requester has " + excess,
	}
	log.FromContext(ctx).Info("Deleting requests of a requester with too many requests",
		"requester", surplus[0].Spec.Username, "has", excess, "deleting", len(surplus))
	var group errgroup.Group
	group.SetLimit(deleters)
	var failures atomic.Int64
	for _, c := range surplus {
		group.Go(func() error {
			_, err := r.deleter.sweep(ctx, c, verdict)
			if err != nil {
				failures.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%d of %d deletions failed: %w", failures.Load(), len(surplus), err)
	}
	return nil
}

// tell reports from time to time that a requester has too many requests.
func (r *quota) tell(first *csr, excess string, now time.Time) {
	if r.reported.Due(first.Spec.Username, now, tellEvery) {
		r.deleter.report.tooMany(first, excess)
	}
}

// excessOf describes the limit that the requests exceed.
func excessOf(requests []*csr, limit retention.Cap) string {
	var bytes int64
	for _, c := range requests {
		bytes += retention.Size(c)
	}
	return excess(len(requests), bytes, limit)
}

func excess(count int, bytes int64, limit retention.Cap) string {
	if limit.Max > 0 && count > limit.Max {
		return fmt.Sprintf("%d requests, more than %d", count, limit.Max)
	}
	return fmt.Sprintf("requests of %d KiB, more than %d KiB", bytes>>10, limit.MaxBytes>>10)
}
