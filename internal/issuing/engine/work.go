// Package engine answers the requests that refer to issuers, and writes on
// issuers whether they can sign. The issuers of cert-manager.io and those of
// other programs run on it.
package engine

import (
	"cmp"
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/process/worker"
)

// The first and the longest pause before the next attempt for an object that
// could not be processed, unless a change wakes it earlier.
const (
	FirstPause = 5 * time.Second
	LastPause  = 5 * time.Minute
)

// concurrency is the number of objects that are processed at the same time.
const concurrency = 5

// Work is how the objects of a controller are processed.
type Work struct {
	// Name is the name of the controller in metrics and in the log.
	Name string
	// Options are the options of its queue. What is zero has a default, except Timeout.
	Options worker.Options
	// Count, if not nil, counts the work.
	Count func(name string, work reconcile.Reconciler) reconcile.Reconciler
	// Wakes are further sources that queue objects, in addition to their own changes.
	Wakes []source.Source
}

// run processes what the watches and Wakes queue, until ctx ends.
func (w Work) run(ctx context.Context, reconciler reconcile.Reconciler, watches ...source.Source) error {
	if w.Count != nil {
		reconciler = w.Count(w.Name, reconciler)
	}
	o := w.Options
	o.Concurrency, o.FirstPause, o.LastPause = cmp.Or(o.Concurrency, concurrency), cmp.Or(o.FirstPause, FirstPause), cmp.Or(o.LastPause, LastPause)
	working, err := worker.New(ctx, w.Name, reconciler, o, append(watches, w.Wakes...)...)
	if err != nil {
		return err
	}
	return working.Start(ctx)
}
