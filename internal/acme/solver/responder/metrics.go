package responder

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

type metrics struct{ requests *prometheus.CounterVec }

// newMetrics registers the metrics. With a nil registry, they are not
// registered.
func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane", Subsystem: "acme_http01", Name: "requests_total",
		Help: "Number of requests to the built-in responder for HTTP-01 challenges, by result (hit, self-check, miss, wrong-host, method, other, health).",
	}, []string{"result"})}
	if err := collector.Share(registry, &m.requests); err != nil {
		return metrics{}, err
	}
	for _, result := range results {
		m.requests.WithLabelValues(result)
	}
	return m, nil
}
