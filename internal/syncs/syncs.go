// Package syncs counts what publishers do, as Kubernetes' own publishers count
// it.
package syncs

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Metrics count one publisher's syncs by how they ended.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New makes the metrics <publisher>_sync_total and
// <publisher>_sync_duration_seconds and registers them with registry; nil
// makes metrics that nobody sees. Those of another server in this process are
// used where there are any.
func New(registry prometheus.Registerer, publisher, object string) (*Metrics, error) {
	labels := []string{"code"}
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: publisher,
			Name:      "sync_total",
			Help:      "Number of times that " + object + " was looked at, by the HTTP code of what it needed: 200 if nothing went wrong.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: publisher,
			Name:      "sync_duration_seconds",
			Help:      "Time that it took to look at " + object + " and mend it, by the HTTP code.",
			Buckets:   prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(register(registry, &m.total), register(registry, &m.duration))
}

// Observe counts a sync.
func (m *Metrics) Observe(err error, took time.Duration) {
	code := code(err)
	m.total.WithLabelValues(code).Inc()
	m.duration.WithLabelValues(code).Observe(took.Seconds())
}

// code is the API's answer, also if it is wrapped.
func code(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return strconv.Itoa(http.StatusOK)
	case errors.As(err, &status) && status.Status().Code != 0:
		return strconv.Itoa(int(status.Status().Code))
	default:
		return strconv.Itoa(http.StatusInternalServerError)
	}
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
