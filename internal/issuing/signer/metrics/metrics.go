// Package metrics counts what signers do.
package metrics

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/process/collector"
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

	begin  []func(signerName string)
	forget []func(labels prometheus.Labels) int
}

// New creates the metrics and registers them with registry; if it is nil, they
// are not registered. Metrics with the same names that are registered already,
// by another signer or another server in this process, are shared.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{}
	err := errors.Join(
		m.counter(registry, &m.Issued, "issued_total", "Number of certificates issued, by signer.", nil),
		m.counter(registry, &m.Refused, "refused_total",
			"Number of requests that will never get a certificate, by signer and by the reason of their Failed condition.", signer.PermanentReasons()),
		m.counter(registry, &m.Delayed, "delayed_total",
			"Number of times that a request had to wait because its signer could not sign, by signer and reason.", signer.PendingReasons()),
		m.counter(registry, &m.Shortened, "shortened_total",
			"Number of issued certificates that expire earlier than requested, together with their CA, by signer.", nil),
		m.histogram(registry, &m.QueueWait, "queue_wait_seconds",
			"Time from the approval of a request until its signer began to work on it, by signer. The API stores the time of the approval in whole seconds, so the value can be up to a second too high.",
			[]float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600}),
		m.histogram(registry, &m.Signature, "signature_duration_seconds",
			"Time to examine a request and to sign its certificate, by signer.",
			prometheus.ExponentialBuckets(0.0001, 2, 16)),
		m.histogram(registry, &m.Duration, "duration_seconds",
			"Time from the start of work on an approved request until its certificate was stored, by signer.",
			prometheus.ExponentialBuckets(0.001, 2, 14)),
		m.gauge(registry, &m.NotAfter, "ca", "not_after_seconds", "When the CA of a signer expires, in seconds since 1970, by signer."),
	)
	return m, err
}

// Begin creates a signer's counters with the value zero: rates need an initial
// zero.
func (m *Metrics) Begin(signerName string) {
	for _, begin := range m.begin {
		begin(signerName)
	}
}

// Forget removes the metrics of a deleted signer.
func (m *Metrics) Forget(signerName string) {
	for _, forget := range m.forget {
		forget(prometheus.Labels{"signer": signerName})
	}
}

// counter sets *metric to a counter with the label signer and, if reasons are given, the
// label reason.
func (m *Metrics) counter(registry prometheus.Registerer, metric **prometheus.CounterVec, name, help string, reasons []string) error {
	labels := []string{"signer"}
	if reasons != nil {
		labels = append(labels, "reason")
	}
	*metric = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "certplane", Subsystem: "signing", Name: name, Help: help}, labels)
	err := collector.Share(registry, metric)
	m.forget = append(m.forget, (*metric).DeletePartialMatch)
	m.begin = append(m.begin, func(signerName string) {
		if reasons == nil {
			(*metric).WithLabelValues(signerName)
		}
		for _, reason := range reasons {
			(*metric).WithLabelValues(signerName, reason)
		}
	})
	return err
}

// histogram makes *metric a histogram of seconds with the label signer.
func (m *Metrics) histogram(registry prometheus.Registerer, metric **prometheus.HistogramVec, name, help string, buckets []float64) error {
	*metric = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "certplane", Subsystem: "signing", Name: name, Help: help, Buckets: buckets,
	}, []string{"signer"})
	err := collector.Share(registry, metric)
	m.forget = append(m.forget, (*metric).DeletePartialMatch)
	m.begin = append(m.begin, func(signerName string) { (*metric).WithLabelValues(signerName) })
	return err
}

// gauge makes *metric a gauge with the label signer. It has no
// value until it is set.
func (m *Metrics) gauge(registry prometheus.Registerer, metric **prometheus.GaugeVec, subsystem, name, help string) error {
	*metric = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "certplane", Subsystem: subsystem, Name: name, Help: help}, []string{"signer"})
	err := collector.Share(registry, metric)
	m.forget = append(m.forget, (*metric).DeletePartialMatch)
	return err
}

// ReasonLabel keeps reasons that endpoints define out of the labels, whose
// number must be limited.
func ReasonLabel(reason string) string {
	if slices.Contains(signer.PermanentReasons(), reason) || slices.Contains(signer.PendingReasons(), reason) {
		return reason
	}
	return "Other"
}
