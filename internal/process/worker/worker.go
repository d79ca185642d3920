// Package worker makes the controllers that run next to a manager's own. They
// come and go with the resources that an API has, in the version in which it
// has them.
package worker

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Options configure a worker.
type Options struct {
	// Concurrency is how many objects are processed at the same time. Zero
	// means one.
	Concurrency int
	// FirstPause and LastPause are the first and the longest wait before the
	// next attempt for an object that has failed. They count for each object
	// separately: a flood of objects that have to wait does not slow down one
	// that need not.
	FirstPause, LastPause time.Duration
	// Timeout limits the work on one object. Zero means no limit.
	Timeout time.Duration
}

// NoTimeout is how long controllers wait for their caches: as long as it takes. The end of
// a shorter limit ends the whole process, while a store that is large or away, and a kind
// that is not defined yet, only need time.
const NoTimeout = 100 * 365 * 24 * time.Hour

// Queue is where a worker's objects wait.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// New returns a worker of what the watches queue. It logs with the logger of ctx.
func New(ctx context.Context, name string, reconciler reconcile.Reconciler, o Options, watches ...source.Source) (controller.Controller, error) {
	worker, err := controller.NewUnmanaged(name, controller.Options{
		Reconciler:              reconciler,
		MaxConcurrentReconciles: o.Concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](o.FirstPause, o.LastPause),
		ReconciliationTimeout:   o.Timeout,
		// A process can have several managers, and a worker can be recreated.
		SkipNameValidation: ptr.To(true),
		CacheSyncTimeout:   NoTimeout,
		Logger:             log.FromContext(ctx),
	})
	for i := 0; err == nil && i < len(watches); i++ {
		err = worker.Watch(watches[i])
	}
	if err != nil {
		return nil, fmt.Errorf("making the worker %s: %w", name, err)
	}
	return worker, nil
}

// Part is a cache or a worker.
type Part interface {
	Start(ctx context.Context) error
}

// Run runs a worker and the caches that it reads until ctx ends or one of them
// fails.
func Run(ctx context.Context, parts ...Part) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part.Start(ctx) })
	}
	return group.Wait()
}
