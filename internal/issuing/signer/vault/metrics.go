package vault

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// metrics are the metrics of all Vault servers. No label names a server, a role or a path.
type metrics struct {
	requests, logins *prometheus.CounterVec
	duration         *prometheus.HistogramVec
	tokens           prometheus.Gauge
	unavailable      *prometheus.GaugeVec
	spared           prometheus.Counter
}

// The codes of calls without an answer.
const (
	codeNone    = "none"
	codeTimeout = "timeout"
)

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "certplane", Subsystem: "vault", Name: name, Help: help}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(opts("requests_total",
			"Number of calls to Vault servers, by operation and status code.")), []string{"operation", "code"}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts(opts("logins_total",
			"Number of logins to Vault servers, by method and result.")), []string{"method", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "vault", Name: "request_duration_seconds",
			Help: "Time that a call to a Vault server took, by operation.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}, []string{"operation"}),
		tokens: prometheus.NewGauge(prometheus.GaugeOpts(opts("tokens", "Number of cached tokens of Vault servers."))),
		unavailable: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("unavailable",
			"1 if the last call to the Vault server of an issuer failed, else 0, by issuer.")), []string{"issuer"}),
		spared: prometheus.NewCounter(prometheus.CounterOpts(opts("spared_total",
			"Number of attempts that were skipped because calls to the Vault server were suspended."))),
	}
	return m, errors.Join(
		collector.Share(registry, &m.requests), collector.Share(registry, &m.logins), collector.Share(registry, &m.duration),
		collector.Share(registry, &m.tokens), collector.Share(registry, &m.unavailable), collector.Share(registry, &m.spared),
	)
}

// called counts a call. A server can invent status codes: those that do not
// exist are one.
func (m *metrics) called(operation, code string, took time.Duration) {
	if status, err := strconv.Atoi(code); err == nil && (status < 200 || status > 511) {
		code = "other"
	}
	m.requests.WithLabelValues(operation, code).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *metrics) loggedIn(method string, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.logins.WithLabelValues(method, result).Inc()
}

func codeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return codeTimeout
	}
	return codeNone
}
