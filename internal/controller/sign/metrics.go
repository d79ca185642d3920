package sign

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/signer"
)

type metrics struct {
	issued, refused, delayed *prometheus.CounterVec
	duration                 *prometheus.HistogramVec
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
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane",
			Subsystem: "signing",
			Name:      "duration_seconds",
			Help:      "Time from the start of work on an approved request until its certificate was stored, by signer.",
			Buckets:   prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"signer"}),
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(
		register(registry, &m.issued),
		register(registry, &m.refused),
		register(registry, &m.delayed),
		register(registry, &m.duration),
	)
}

// reasonLabel keeps the reasons that endpoints make up out of the labels, of
// which there must not be many.
func reasonLabel(reason string) string {
	if slices.Contains(signer.Reasons(), reason) {
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
