package acmeserver

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/collector"
)

// metrics counts requests.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	nonces   *prometheus.CounterVec
	limited  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_acme_requests_total", Help: "Requests of ACME clients, by the type of the problem in the answer.",
		}, []string{"endpoint", "resource", "code", "problem"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "certplane_acme_request_seconds", Help: "How long requests of ACME clients took.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30},
		}, []string{"resource"}),
		nonces: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_acme_nonces_total", Help: "Nonces in messages of ACME clients, by what became of them.",
		}, []string{"outcome"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certplane_acme_ratelimited_total", Help: "Requests of ACME clients that were over a limit.",
		}, []string{"limit"}),
	}
	return m, errors.Join(collector.Share(registry, &m.requests), collector.Share(registry, &m.seconds),
		collector.Share(registry, &m.nonces), collector.Share(registry, &m.limited))
}

func (x *exchange) resourceName() string {
	if x.resource == nil {
		return "none"
	}
	return x.resource.name
}

// report counts the request and logs it if it was a message. Contacts and payloads
// are in no log.
func (x *exchange) report(a *answer) {
	endpoint := ""
	if x.endpoint != nil { // others are as clients write them
		endpoint = x.endpoint.Name()
	}
	took := x.Now().Sub(x.now)
	x.metrics.requests.WithLabelValues(endpoint, x.resourceName(), strconv.Itoa(a.status), x.problem.Word()).Inc()
	x.metrics.seconds.WithLabelValues(x.resourceName()).Observe(took.Seconds())
	if x.r.Method != "POST" {
		return
	}
	account, detail := "", ""
	if x.account != nil {
		account = x.account.Name
	}
	if x.problem != nil && !x.problem.HasType(rfc8555.ProblemInvalidContact, rfc8555.ProblemUnsupportedContact) {
		detail = x.problem.Detail
	}
	klog.FromContext(x.ctx).Info("ACME request", "endpoint", endpoint, "resource", x.resourceName(), "account", account, "order", x.order,
		"address", x.address.String(), "status", a.status, "problem", x.problem.Word(), "detail", detail,
		"userAgent", rfc8555.Quote(x.r.UserAgent()), "took", took.Round(time.Millisecond).String())
}
