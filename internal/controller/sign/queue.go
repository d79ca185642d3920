package sign

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type (
	limiter = workqueue.TypedRateLimiter[reconcile.Request]
	queue   = workqueue.TypedRateLimitingInterface[reconcile.Request]
)

// backOff counts for each request alone: no flood of requests that have to
// wait slows down one that need not.
func backOff() limiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Minute)
}

// newQueue returns what makes a signer's queue, in which what is new comes
// before what a start finds, and whose length is a metric.
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

// showLength makes a metric of a queue's length. Of several servers in one
// process the first one shows.
func showLength(q queue, signerName string, registry prometheus.Registerer) {
	length := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace:   "certplane",
		Subsystem:   "signing",
		Name:        "queue_length",
		Help:        "Number of approved requests that wait for a worker of their signer, without those that are tried again later, by signer.",
		ConstLabels: prometheus.Labels{"signer": signerName},
	}, func() float64 { return float64(q.Len()) })
	if err := register(registry, &length); err != nil {
		klog.ErrorS(err, "Cannot show the length of a signer's queue", "signer", signerName)
	}
}
