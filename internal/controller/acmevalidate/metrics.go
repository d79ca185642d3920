package acmevalidate

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct {
	outcomes *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// newMetrics makes the metrics and registers them with registry, unless it is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "validations_total",
			Help: "Number of attempts to validate challenges of the ACME server, by type and outcome: valid, or the type of the problem.",
		}, []string{"type", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "validation_seconds",
			Help:    "Duration of attempts to validate challenges of the ACME server, by type.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"type"}),
	}
	if err := errors.Join(collector.Share(registry, &m.outcomes), collector.Share(registry, &m.seconds)); err != nil {
		return nil, fmt.Errorf("registering the metrics of validations: %w", err)
	}
	return m, nil
}
