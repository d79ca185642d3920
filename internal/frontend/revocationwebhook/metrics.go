package revocationwebhook

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// The answers to reviews.
const (
	denied    = "revoked"
	unknown   = "unknown"
	malformed = "malformed"
)

// Metrics are the metrics of a process's webhook. They are safe for concurrent use; nil
// counts nothing.
type Metrics struct {
	answers  *prometheus.CounterVec
	duration prometheus.Histogram
}

// NewMetrics registers the metrics, or returns those that are registered already. With a nil
// registry, they are not registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "revocation_webhook", Name: "answers_total",
			Help: "Number of answers to reviews of API servers, by answer (revoked, unknown, malformed).",
		}, []string{"answer"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "revocation_webhook", Name: "duration_seconds",
			Help:    "Time from a review to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0000625, 2, 16),
		}),
	}
	return m, errors.Join(collector.Share(registry, &m.answers), collector.Share(registry, &m.duration))
}

func (m *Metrics) answered(answer string, took time.Duration) {
	if m == nil {
		return
	}
	m.answers.WithLabelValues(answer).Inc()
	m.duration.Observe(took.Seconds())
}
