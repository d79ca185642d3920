package clean

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct {
	deleted *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them with registry. If registry is
// nil, they are not registered. If another server in this process has
// registered them already, newMetrics returns those.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane",
		Subsystem: "cleaning",
		Name:      "deleted_total",
		Help:      "Number of CertificateSigningRequests deleted, by reason: issued, denied, failed, pending, expired, approved, undecided or excess.",
	}, []string{"reason"})}
	return m, collector.Share(registry, &m.deleted)
}

// newPodMetrics is newMetrics for PodCertificateRequests.
func newPodMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane",
		Subsystem: "cleaning",
		Name:      "pod_requests_deleted_total",
		Help:      "Number of PodCertificateRequests deleted, by reason: finished, pending or excess.",
	}, []string{"reason"})}
	return m, collector.Share(registry, &m.deleted)
}
