package acmeorders

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/collector"
)

// metrics counts orders. How long they take, the ACME server counts.
type metrics struct{ ended *prometheus.CounterVec }

// newMetrics makes the metrics and registers them with registry, unless it is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "orders_ended_total",
			Help: "Finalized orders of ACME clients that have become valid or invalid.",
		}, []string{"endpoint", "state"}),
	}
	if err := collector.Share(registry, &m.ended); err != nil {
		return nil, fmt.Errorf("registering the metrics of ACME orders: %w", err)
	}
	return m, nil
}
