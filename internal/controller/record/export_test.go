package record

import (
	"context"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inventory/packstore"
)

// Begin does what Start does first.
func (r *Recorder) Begin(ctx context.Context) error {
	if err := r.store.Load(ctx); err != nil {
		return err
	}
	return r.store.Pack(ctx, false)
}

// RecordSeen records the certificates of requests as if they had been seen.
func (r *Recorder) RecordSeen(ctx context.Context, requests ...client.Object) error {
	for _, request := range requests {
		r.see(request)
	}
	return r.recordDue(ctx)
}

// Stop ends the attempts to write.
func (r *Recorder) Stop() { r.journal.Stop() }

// Store returns the store.
func (r *Recorder) Store() *packstore.Store { return r.store }

// Dropped returns how many certificates of requests of a kind were not recorded.
func Dropped(r *Recorder, kind string) float64 {
	return testutil.ToFloat64(r.dropped.WithLabelValues(kind))
}

// Packed returns whether records of a day are packed: 1 if there are any.
func Packed(r *Recorder, day int64) int {
	if key, _ := r.store.LastPack(day); key != "" {
		return 1
	}
	return 0
}
