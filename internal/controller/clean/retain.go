package clean

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	clientqueue "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/retention"
)

type (
	csr       = certificatesv1.CertificateSigningRequest
	workqueue = clientqueue.TypedRateLimitingInterface[reconcile.Request]
)

// expirer deletes requests at the end of their time.
type expirer struct {
	cache   client.Reader
	clock   clock.PassiveClock
	limits  retention.Limits
	deleter *deleter
}

// Reconcile deletes one request, if its time is over.
func (r *expirer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &csr{}
	if err := r.cache.Get(ctx, req.NamespacedName, c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	verdict := retention.Decide(c, r.clock.Now(), r.limits)
	if verdict.Delete() {
		return r.deleter.sweep(ctx, c, verdict)
	}
	return reconcile.Result{RequeueAfter: r.until(verdict)}, nil
}

// until returns how long to wait for the verdict to change; 0 if it never does.
func (r *expirer) until(v retention.Verdict) time.Duration {
	if v.Again.IsZero() {
		return 0
	}
	return max(v.Again.Sub(r.clock.Now()), time.Nanosecond)
}

// schedule queues requests for when they are due, not for now: most of their
// changes do not concern the cleaner.
func (r *expirer) schedule() handler.EventHandler {
	schedule := func(c client.Object, q workqueue) {
		verdict := retention.Decide(c.(*csr), r.clock.Now(), r.limits)
		if wait := r.until(verdict); verdict.Delete() || wait != 0 {
			q.AddAfter(keyOf(c), wait)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue) { schedule(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue) { schedule(e.ObjectNew, q) },
		// The queue must not remember deleted requests for hours.
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue) { q.Add(keyOf(e.Object)) },
	}
}

func keyOf(c client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)}
}
