package approve

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	approved, notApproved *prometheus.CounterVec
	duration              *prometheus.HistogramVec
}

// newMetrics makes the metrics and registers them with registry; nil makes
// metrics that nobody sees. Where there are metrics of the same names already,
// made for another server in this process, those are used.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		approved: counter("approved_total",
			"Number of requests approved without a person, by signer and by the recogniser that knew them.", "signer", "recogniser"),
		notApproved: counter("not_approved_total",
			"Number of requests left to a person, by signer and reason: NotRecognised, NotPermitted.", "signer", "reason"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane",
			Subsystem: "approval",
			Name:      "duration_seconds",
			Help:      "Time from the first question about a request's permission until its approval was stored, by signer.",
			Buckets:   prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"signer"}),
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(register(registry, &m.approved), register(registry, &m.notApproved), register(registry, &m.duration))
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane",
		Subsystem: "approval",
		Name:      name,
		Help:      help,
	}, labels)
}

func register[C prometheus.Collector](registry prometheus.Registerer, collector *C) error {
	err := registry.Register(*collector)
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		return err
	}
	existing, ok := already.ExistingCollector.(C)
	if !ok {
		return err
	}
	*collector = existing
	return nil
}
