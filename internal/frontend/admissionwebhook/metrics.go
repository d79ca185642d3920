package admissionwebhook

import (
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/process/collector"
)

// The results of a review.
const (
	allowed = "allowed"
	refused = "refused"
	failed  = "failed" // it was not a review, or there were too many at once
)

// other is the label of all resources except those below: clients that send
// reviews must not be able to create an unlimited number of series.
const other = "other"

var counted = []string{"certificaterequests", "certificates", "challenges", "clusterissuers", "issuers", "orders", "signers"}

// Metrics are the metrics of a process's webhook. They are safe for concurrent
// use; nil counts nothing.
type Metrics struct {
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	notAfter *prometheus.GaugeVec // without labels, so that it has no value before the first certificate
}

// NewMetrics registers the metrics, or returns those that are registered
// already. With a nil registry, they are not registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "admission_webhook", Name: "reviews_total",
			Help: "Number of reviews that API servers have asked for, by path (mutate, validate), resource and result (allowed, refused, failed).",
		}, []string{"path", "resource", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "admission_webhook", Name: "review_duration_seconds",
			Help:    "Time from a review to its answer, by path.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"path"}),
		notAfter: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "admission_webhook", Name: "certificate_not_after_seconds",
			Help: "When the certificate ends that the webhook serves, in seconds since 1970.",
		}, nil),
	}
	return m, errors.Join(collector.Share(registry, &m.reviews), collector.Share(registry, &m.duration), collector.Share(registry, &m.notAfter))
}

func (m *Metrics) reviewed(path string, resource metav1.GroupVersionResource, result string, took time.Duration) {
	if m == nil {
		return
	}
	name := resource.Resource
	if !slices.Contains(counted, name) {
		name = other
	}
	m.reviews.WithLabelValues(path[1:], name, result).Inc()
	m.duration.WithLabelValues(path[1:]).Observe(took.Seconds())
}

func (m *Metrics) serves(certificate *tls.Certificate) {
	if m != nil {
		m.notAfter.WithLabelValues().Set(float64(certificate.Leaf.NotAfter.Unix()))
	}
}
