package acmeorders

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/collector"
)

// metrics counts orders. They are counted here and not in the ACME server, because only one
// process runs this controller at a time.
type metrics struct {
	ended  *prometheus.CounterVec
	issued *prometheus.HistogramVec
}

// newMetrics makes the metrics and registers them with registry, unless it is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "orders_ended_total",
			Help: "Finalized orders of ACME clients that have become valid or invalid.",
		}, []string{"endpoint", "state"}),
		issued: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "acme", Name: "issue_seconds",
			Help:    "Time from the finalization of an ACME client's order until its certificate was issued, in whole seconds.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 3600, 6 * 3600, 24 * 3600},
		}, []string{"endpoint"}),
	}
	if err := errors.Join(collector.Share(registry, &m.ended), collector.Share(registry, &m.issued)); err != nil {
		return nil, fmt.Errorf("registering the metrics of ACME orders: %w", err)
	}
	return m, nil
}

// count counts an order that has become valid or invalid.
func (m *metrics) count(o *v1alpha1.AcmeOrder) {
	s := &o.Status
	m.ended.WithLabelValues(o.Spec.Endpoint, string(s.State)).Inc()
	if s.State == v1alpha1.AcmeOrderValid && s.Ended != nil && s.Finalized != nil {
		m.issued.WithLabelValues(o.Spec.Endpoint).Observe(s.Ended.Sub(s.Finalized.Time).Seconds())
	}
}
