package venafi

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// metrics are the metrics of all servers, under the names that cert-manager uses.
type metrics struct {
	calls      *prometheus.SummaryVec
	tokens     *prometheus.CounterVec
	tokenTimes prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	const namespace = "certmanager"
	m := &metrics{
		calls: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Namespace: namespace, Subsystem: "http", Name: "venafi_client_request_duration_seconds",
			Help:       "Time that a call to a CyberArk Certificate Manager server took, by call.",
			Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
		}, []string{"api_call"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "venafi_oauth_token_requests_total",
			Help: "How often credentials were verified or tokens requested, by status: success or failure.",
		}, []string{"status"}),
		tokenTimes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "venafi_oauth_token_request_duration_seconds",
			Help: "Time that this took.", Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
	}
	return m, errors.Join(collector.Share(registry, &m.calls), collector.Share(registry, &m.tokens), collector.Share(registry, &m.tokenTimes))
}

func (m *metrics) loggedIn(err error, took time.Duration) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.tokens.WithLabelValues(status).Inc()
	m.tokenTimes.Observe(took.Seconds())
}
