// Package metrics counts what signers do.
package metrics

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/collector"
	"github.com/certplane/certplane/internal/signer"
)

// Metrics are the metrics of all signers of a process.
type Metrics struct {
	// Issued and Shortened have the label signer; Refused and Delayed also have
	// the label reason.
	Issued, Refused, Delayed, Shortened *prometheus.CounterVec
	// QueueWait, Signature and Duration are in seconds.
	QueueWait, Signature, Duration *prometheus.HistogramVec
	// NotAfter is when a signer's CA expires.
	NotAfter *prometheus.GaugeVec
}

// New creates the metrics and registers them with registry; if it is nil, they
// are not registered. Metrics with the same names that are registered already,
// by another signer or another server in this process, are shared.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		Issued: counter("issued_total", "Number of certificates issued, by signer.", "signer"),
		Refused: counter("refused_total",
			"Number of requests that will never get a certificate, by signer and by the reason of their Failed condition.", "signer", "reason"),
		Delayed: counter("delayed_total",
			"Number of times that a request had to wait because its signer could not sign, by signer and reason.", "signer", "reason"),
		Shortened: counter("shortened_total",
			"Number of certificates issued that end earlier than they were to, because their CA ends then, by signer.", "signer"),
		QueueWait: histogram("queue_wait_seconds",
			"Time from the approval of a request until its signer began to work on it, by signer. The API stores the time of the approval in whole seconds: up to a second too much.",
			[]float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600}),
		Signature: histogram("signature_duration_seconds",
			"Time that it took to examine a request and to sign its certificate, by signer.",
			prometheus.ExponentialBuckets(0.0001, 2, 16)),
		Duration: histogram("duration_seconds",
			"Time from the start of work on an approved request until its certificate was stored, by signer.",
			prometheus.ExponentialBuckets(0.001, 2, 14)),
		NotAfter: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane",
			Subsystem: "ca",
			Name:      "not_after_seconds",
			Help:      "When the CA ends with which a signer signs, in seconds since 1970, by signer.",
		}, []string{"signer"}),
	}
	return m, errors.Join(
		collector.Share(registry, &m.Issued),
		collector.Share(registry, &m.Refused),
		collector.Share(registry, &m.Delayed),
		collector.Share(registry, &m.Shortened),
		collector.Share(registry, &m.QueueWait),
		collector.Share(registry, &m.Signature),
		collector.Share(registry, &m.Duration),
		collector.Share(registry, &m.NotAfter),
	)
}

// Begin creates a signer's counters with the value zero: rates need an initial
// zero.
func (m *Metrics) Begin(signerName string) {
	m.Issued.WithLabelValues(signerName)
	m.Shortened.WithLabelValues(signerName)
	m.QueueWait.WithLabelValues(signerName)
	m.Signature.WithLabelValues(signerName)
	m.Duration.WithLabelValues(signerName)
	for _, reason := range signer.PermanentReasons() {
		m.Refused.WithLabelValues(signerName, reason)
	}
	for _, reason := range signer.PendingReasons() {
		m.Delayed.WithLabelValues(signerName, reason)
	}
}

// Forget removes the metrics of a deleted signer.
func (m *Metrics) Forget(signerName string) {
	labels := prometheus.Labels{"signer": signerName}
	for _, counter := range []*prometheus.CounterVec{m.Issued, m.Refused, m.Delayed, m.Shortened} {
		counter.DeletePartialMatch(labels)
	}
	for _, histogram := range []*prometheus.HistogramVec{m.QueueWait, m.Signature, m.Duration} {
		histogram.DeletePartialMatch(labels)
	}
	m.NotAfter.DeletePartialMatch(labels)
}

// ReasonLabel keeps reasons that endpoints define out of the labels, whose
// number must be limited.
func ReasonLabel(reason string) string {
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
