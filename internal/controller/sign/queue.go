package sign

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/process/worker"
)

type (
	limiter = workqueue.TypedRateLimiter[reconcile.Request]
	queue   = workqueue.TypedRateLimitingInterface[reconcile.Request]
)

// backOff counts for each request separately: a flood of requests that have to
// wait does not slow down one that need not.
func backOff() limiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Minute)
}

// retryAfter is a source of work: each change triggers the requests that have
// waited for it. With their back-off alone, they would wait for minutes more.
func (r *reconciler) retryAfter(changes Changes) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		if changes != nil {
			cancel := changes(func(waited func(*csr) bool) { r.retry(ctx, q, waited) })
			context.AfterFunc(ctx, cancel)
		}
		return nil
	})
}

// index indexes the requests that wait, so that a change does not visit all stored ones. It
// does not depend on selects, which can change while a request does not.
func (r *reconciler) index(cache client.FieldIndexer, signerName string) error {
	r.waiting = "waiting." + signerName
	err := cache.IndexField(context.Background(), &csr{}, r.waiting, func(o client.Object) []string {
		if actionable(o.(*csr), func(string) bool { return true }) {
			return []string{"true"}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing the requests for signer %s: %w", signerName, err)
	}
	return nil
}

func (r *reconciler) retry(ctx context.Context, q queue, waited func(*csr) bool) {
	list, options := &certificatesv1.CertificateSigningRequestList{}, []client.ListOption{client.UnsafeDisableDeepCopy}
	if r.waiting != "" {
		options = append(options, client.MatchingFields{r.waiting: "true"})
	}
	if err := r.cache.List(ctx, list, options...); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the requests that wait for a changed object; they are retried after their back-off")
		return
	}
	for i := range list.Items {
		if c := &list.Items[i]; actionable(c, r.selects) && waited(c) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
}

// newQueue returns the constructor of a signer's queue. In the queue, new
// requests come before those that exist at a start. Its length is a metric.
func newQueue(signerName string, registry prometheus.Registerer) func(string, limiter) queue {
	return func(name string, limit limiter) queue {
		q := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
			o.Log = klog.Background().WithValues("controller", name)
			o.RateLimiter = limit
		})
		if registry != nil {
			showLength(q, signerName, registry)
		}
		return q
	}
}

// showLength makes a metric of a queue's length. If a process runs several servers, it
// shows the queue of the first one.
func showLength(q queue, signerName string, registry prometheus.Registerer) {
	length := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace:   "certplane",
		Subsystem:   "signing",
		Name:        "queue_length",
		Help:        "Number of approved requests that wait for a worker of their signer, not counting those that are retried later, by signer.",
		ConstLabels: prometheus.Labels{"signer": signerName},
	}, func() float64 { return float64(q.Len()) })
	if err := collector.Share(registry, &length); err != nil {
		klog.ErrorS(err, "Cannot show the length of a signer's queue", "signer", signerName)
	}
}
