package webhook

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// metrics are the metrics of one endpoint.
type metrics struct {
	signerName string

	calls, opened, sparedCalls, staleFiles *prometheus.CounterVec
	isOpen                                 *prometheus.GaugeVec
	duration                               *prometheus.HistogramVec
}

// newMetrics creates the metrics and registers them with registry; if it is
// nil, they are not registered. Metrics that another endpoint has registered
// already are shared.
func newMetrics(registry prometheus.Registerer, signerName string) (*metrics, error) {
	m := &metrics{
		signerName:  signerName,
		calls:       counter("calls_total", "Number of calls to a signer's endpoint, by signer and result.", "signer", "result"),
		opened:      counter("circuit_opened_total", "Number of times that calls to a signer's endpoint were suspended because it did not answer, by signer.", "signer"),
		sparedCalls: counter("circuit_spared_total", "Number of calls that were skipped because calls to the endpoint were suspended, by signer.", "signer"),
		staleFiles:  counter("stale_files_total", "Number of calls made with former credentials because those in the files could not be used, by signer.", "signer"),
		isOpen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "webhook", Name: "circuit_open",
			Help: "1 while calls to a signer's endpoint are suspended because it did not answer, else 0, by signer.",
		}, []string{"signer"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "webhook", Name: "call_duration_seconds",
			Help:    "Time that a call to a signer's endpoint took, by signer.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}, []string{"signer"}),
	}
	err := errors.Join(
		collector.Share(registry, &m.calls), collector.Share(registry, &m.opened), collector.Share(registry, &m.sparedCalls),
		collector.Share(registry, &m.staleFiles), collector.Share(registry, &m.isOpen), collector.Share(registry, &m.duration),
	)
	m.isOpen.WithLabelValues(signerName).Set(0)
	return m, err
}

func (m *metrics) called(result string, took time.Duration) {
	m.calls.WithLabelValues(m.signerName, result).Inc()
	m.duration.WithLabelValues(m.signerName).Observe(took.Seconds())
}

func (m *metrics) spared() { m.sparedCalls.WithLabelValues(m.signerName).Inc() }
func (m *metrics) stale()  { m.staleFiles.WithLabelValues(m.signerName).Inc() }

func (m *metrics) circuit(wasOpen, isOpen bool) {
	if isOpen {
		m.isOpen.WithLabelValues(m.signerName).Set(1)
	} else {
		m.isOpen.WithLabelValues(m.signerName).Set(0)
	}
	if isOpen && !wasOpen {
		m.opened.WithLabelValues(m.signerName).Inc()
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane", Subsystem: "webhook", Name: name, Help: help,
	}, labels)
}
