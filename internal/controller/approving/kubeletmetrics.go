package approving

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct {
	approved, notApproved *prometheus.CounterVec
	duration              *prometheus.HistogramVec
}

// newMetrics makes the metrics and registers them with registry. If registry is
// nil, they are not registered. If metrics of the same names are registered
// already, for another server in this process, newMetrics returns those.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		approved: counter("approved_total",
			"Number of requests approved automatically, by signer and by the recogniser that matched them.", "signer", "recogniser"),
		notApproved: counter("not_approved_total",
			"Number of requests that wait for approval by hand, by signer and reason: NotRecognised, NotPermitted.", "signer", "reason"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane",
			Subsystem: "approval",
			Name:      "duration_seconds",
			Help:      "Time from the first check of a requester's permission until the approval was stored, by signer.",
			Buckets:   prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"signer"}),
	}
	return m, errors.Join(collector.Share(registry, &m.approved), collector.Share(registry, &m.notApproved), collector.Share(registry, &m.duration))
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane",
		Subsystem: "approval",
		Name:      name,
		Help:      help,
	}, labels)
}
