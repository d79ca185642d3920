// Package syncmetrics counts the syncs of publishers, as Kubernetes' own publishers
// count theirs.
package syncmetrics

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/process/collector"
)

// Metrics count one publisher's syncs by their result.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New makes the metrics <publisher>_sync_total and
// <publisher>_sync_duration_seconds and registers them with registry; with nil
// they are not exported. If another server in this process has registered them
// already, those are used.
func New(registry prometheus.Registerer, publisher, object string) (*Metrics, error) {
	labels := []string{"code"}
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: publisher,
			Name:      "sync_total",
			Help:      "Number of times that " + object + " was processed, by the HTTP code of the result: 200 for success.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: publisher,
			Name:      "sync_duration_seconds",
			Help:      "Time to process " + object + ", by the HTTP code.",
			Buckets:   prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
	return m, errors.Join(collector.Share(registry, &m.total), collector.Share(registry, &m.duration))
}

// Observe counts a sync.
func (m *Metrics) Observe(err error, took time.Duration) {
	code := code(err)
	m.total.WithLabelValues(code).Inc()
	m.duration.WithLabelValues(code).Observe(took.Seconds())
}

// code returns the code of the API's answer, also if the error is wrapped.
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
