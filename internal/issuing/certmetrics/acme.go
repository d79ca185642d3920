package certmetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// acmeMetrics are certplane's own about ACME. Their labels have no free text.
type acmeMetrics struct {
	orders, challenges *prometheus.CounterVec
	waits              *prometheus.HistogramVec
}

func newACMEMetrics() acmeMetrics {
	const namespace, subsystem = "certplane", "acme"
	return acmeMetrics{
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "orders_total",
			Help: "Number of Orders that have ended, by their state and the type of the CA's problem.",
		}, []string{"result", "problem"}),
		challenges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "challenges_total",
			Help: "Number of Challenges that have ended, by their type and state.",
		}, []string{"type", "result"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "wait_seconds",
			Help:    "Duration of single waits of Orders, by cause (challenges, ca, limit, issuer, solver).",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600},
		}, []string{"cause"}),
	}
}

// OrderEnded counts an Order that has reached a final state, because of the
// problem of the CA if it is not nil.
func (m *Metrics) OrderEnded(state string, why *rfc8555.Problem) {
	if m != nil {
		m.acme.orders.WithLabelValues(state, why.Word()).Inc()
	}
}

// ChallengeEnded counts a Challenge that has reached a final state.
func (m *Metrics) ChallengeEnded(kind, state string) {
	if m != nil {
		m.acme.challenges.WithLabelValues(kind, state).Inc()
	}
}

// OrderWaited counts a wait of an Order that has ended.
func (m *Metrics) OrderWaited(cause string, took time.Duration) {
	if m != nil {
		m.acme.waits.WithLabelValues(cause).Observe(took.Seconds())
	}
}
