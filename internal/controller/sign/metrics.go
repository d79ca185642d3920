package sign

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/collector"
	"github.com/certplane/certplane/internal/signer"
)

type metrics struct {
	issued, refused, delayed, shortened *prometheus.CounterVec

	queueWait, signature, duration *prometheus.HistogramVec

	notAfter *prometheus.GaugeVec
}

// newMetrics makes the metrics and registers them with registry; nil makes
// metrics that nobody sees. Where there are metrics of the same names already,
// made for another signer or another server in this process, those are used.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		issued: counter("issued_total", "Number of certificates issued, by signer.", "signer"),
		refused: counter("refused_total",
			"Number of requests that will never get a certificate, by signer and by the reason of their Failed condition.", "signer", "reason"),
		delayed: counter("delayed_total",
			"Number of times that a request had to wait because its signer could not sign, by signer and reason.", "signer", "reason"),
		shortened: counter("shortened_total",
			"Number of certificates issued that end earlier than they were to, because their CA ends then, by signer.", "signer"),
		queueWait: histogram("queue_wait_seconds",
			"Time from the approval of a request until its signer began to work on it, by signer. The API stores the time of the approval in whole seconds: up to a second too much.",
			[]float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600}),
		signature: histogram("signature_duration_seconds",
			"Time that it took to examine a request and to sign its certificate, by signer.",
			prometheus.ExponentialBuckets(0.0001, 2, 16)),
		duration: histogram("duration_seconds",
			"Time from the start of work on an approved request until its certificate was stored, by signer.",
			prometheus.ExponentialBuckets(0.001, 2, 14)),
		notAfter: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane",
			Subsystem: "ca",
			Name:      "not_after_seconds",
			Help:      "When the CA ends with which a signer signs, in seconds since 1970, by signer.",
		}, []string{"signer"}),
	}
	return m, errors.Join(
		collector.Share(registry, &m.issued),
		collector.Share(registry, &m.refused),
		collector.Share(registry, &m.delayed),
		collector.Share(registry, &m.shortened),
		collector.Share(registry, &m.queueWait),
		collector.Share(registry, &m.signature),
		collector.Share(registry, &m.duration),
		collector.Share(registry, &m.notAfter),
	)
}

// begin makes a signer's counters appear before there is anything to count:
// rates need a zero to rise from.
func (m *metrics) begin(signerName string) {
	m.issued.WithLabelValues(signerName)
	m.shortened.WithLabelValues(signerName)
	m.queueWait.WithLabelValues(signerName)
	m.signature.WithLabelValues(signerName)
	m.duration.WithLabelValues(signerName)
	for _, reason := range signer.PermanentReasons() {
		m.refused.WithLabelValues(signerName, reason)
	}
	for _, reason := range signer.PendingReasons() {
		m.delayed.WithLabelValues(signerName, reason)
	}
}

// reasonLabel keeps the reasons that endpoints make up out of the labels, of
// which there must not be many.
func reasonLabel(reason string) string {
	if slices.Contains(signer.PermanentReasons(), reason) || slices.Contains(signer.PendingReasons(), reason) {
		return reason
	}
	return "Other"
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane",
		Subsystem: "signing",
		Name:      name,
		Help:      help,
	}, labels)
}

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "certplane",
		Subsystem: "signing",
		Name:      name,
		Help:      help,
		Buckets:   buckets,
	}, []string{"signer"})
}
