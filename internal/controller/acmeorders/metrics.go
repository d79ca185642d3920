package acmeorders

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/collector"
)

type metrics struct {
	ended   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newMetrics makes the metrics and registers them with registry, unless it is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "orders_ended_total",
			Help: "Number of finalized orders of the ACME server that have become valid or invalid, by endpoint and state.",
		}, []string{"endpoint", "state"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "issue_seconds",
			Help:    "Time from the finalization of an order of the ACME server, in whole seconds, until it was valid, by endpoint.",
			Buckets: []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600},
		}, []string{"endpoint"}),
	}
	if err := errors.Join(collector.Share(registry, &m.ended), collector.Share(registry, &m.seconds)); err != nil {
		return nil, fmt.Errorf("registering the metrics of ACME orders: %w", err)
	}
	return m, nil
}
