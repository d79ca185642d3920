package apiserver

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// limitMetrics are the metrics of api.limits.
type limitMetrics struct {
	places  *prometheus.GaugeVec
	waiting *prometheus.GaugeVec
	watches *prometheus.GaugeVec
	bodies  *prometheus.GaugeVec
	answers *prometheus.GaugeVec
	refused *prometheus.CounterVec
	stalled *prometheus.CounterVec
	closed  *prometheus.CounterVec
}

func newLimitMetrics(registry prometheus.Registerer) (*limitMetrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "certplane", Subsystem: "apiserver", Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "certplane", Subsystem: "apiserver", Name: name, Help: help}, labels)
	}
	m := &limitMetrics{
		places:  gauge("places_in_use", "Number of requests that are worked on, by kind (reading, writing) and class of tenant.", "kind", "class"),
		waiting: gauge("waiting_requests", "Number of requests that wait for a place, by kind (reading, writing) and class of tenant.", "kind", "class"),
		watches: gauge("watches", "Number of watches, by class of tenant.", "class"),
		bodies:  gauge("body_bytes", "Size of the bodies of all requests under way, in bytes, by class of tenant.", "class"),
		answers: gauge("answer_bytes", "Memory for answers that are encoded as a whole (YAML, pretty JSON, tables) and for lists from the store, in bytes, by class of tenant.", "class"),
		refused: counter("refused_requests_total", "Number of requests that a setting of api.limits has refused, by setting and class of tenant.", "setting", "class"),
		stalled: counter("stalled_answers_total", "Number of answers and watches that were ended because the client took nothing of them."),
		closed:  counter("connections_closed_total", "Number of connections that were closed because there were too many, by class of tenant; the class address is for connections without an allowed request.", "class"),
	}
	return m, errors.Join(
		collector.Share(registry, &m.places), collector.Share(registry, &m.waiting), collector.Share(registry, &m.watches),
		collector.Share(registry, &m.bodies), collector.Share(registry, &m.answers), collector.Share(registry, &m.refused), collector.Share(registry, &m.stalled),
		collector.Share(registry, &m.closed),
	)
}
