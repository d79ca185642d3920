package clean

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	deleted *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them with registry; nil makes
// metrics that nobody sees. Those of another server in this process are used
// where there are any.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane",
		Subsystem: "cleaning",
		Name:      "deleted_total",
		Help:      "Number of CertificateSigningRequests deleted, by reason: issued, denied, failed, pending, expired, approved, undecided or excess.",
	}, []string{"reason"})}
	if registry == nil {
		return m, nil
	}
	err := registry.Register(m.deleted)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			m.deleted, err = existing, nil
		}
	}
	return m, err
}
