package tlsalpn

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// Results of handshakes.
const (
	hit = "hit"
	// refused is the result of all other connections: no challenge for the name, another
	// protocol, or not TLS.
	refused = "refused"
)

type metrics struct{ handshakes *prometheus.CounterVec }

// newMetrics registers the metrics. With a nil registry, they are not
// registered.
func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane", Subsystem: "acme_tlsalpn01", Name: "handshakes_total",
		Help: "Number of handshakes at the listeners for TLS-ALPN-01 challenges, by result (hit, refused).",
	}, []string{"result"})}
	if err := collector.Share(registry, &m.handshakes); err != nil {
		return metrics{}, err
	}
	m.handshakes.WithLabelValues(hit)
	m.handshakes.WithLabelValues(refused)
	return m, nil
}
