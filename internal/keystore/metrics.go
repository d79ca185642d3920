package keystore

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct {
	changes *prometheus.CounterVec
	failed  *prometheus.GaugeVec
}

// newMetrics creates the metrics and registers them with registry; if it is
// nil, they are not registered. Metrics that another CA has registered already
// are shared.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "ca", Name: "changes_total",
			Help: "Number of times that a new CA was activated without a restart, by the CA's place in the configuration.",
		}, []string{"ca"}),
		failed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "ca", Name: "reload_failed",
			Help: "1 while the CA's files cannot be used, so that the previous CA still signs, else 0; by the CA's place in the configuration.",
		}, []string{"ca"}),
	}
	return m, errors.Join(collector.Share(registry, &m.changes), collector.Share(registry, &m.failed))
}
