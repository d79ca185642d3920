package record

import (
	"context"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inventory"
)

// RecordSeen records the certificates of requests as if they had been seen.
func (r *Recorder) RecordSeen(ctx context.Context, requests ...client.Object) error {
	for _, request := range requests {
		r.see(request)
	}
	return r.recordDue(ctx)
}

// Packs returns the records.
func (r *Recorder) Packs() *inventory.Packs { return r.packs }

// Dropped returns how many certificates of requests of a kind were not recorded.
func Dropped(r *Recorder, kind string) float64 {
	return testutil.ToFloat64(r.dropped.WithLabelValues(kind))
}
