package acme

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/process/collector"
)

// action is the value of a label of the metrics, as cert-manager names it.
type action string

const (
	actionDiscover      action = "discover"
	actionRegister      action = "register_account"
	actionFindAccount   action = "get_registration"
	actionUpdateAccount action = "update_registration"
	actionNewOrder      action = "authorize_order"
	actionGetOrder      action = "get_order"
	actionFinalize      action = "create_order_cert"
	actionCertificate   action = "fetch_cert"
	actionAuthorization action = "get_authorization"
	actionAccept        action = "accept_challenge"
	actionRenewalInfo   action = "get_renewal_info"
	actionUnnamed       action = "unnamed_action"
	noResponse                 = "999"
	maxHosts                   = 100
	hostOfTooMany              = "other"
	requestCount               = "certmanager_http_acme_client_request_count"
	requestDuration            = "certmanager_http_acme_client_request_duration_seconds"
)

// metrics count requests. The zero value counts nothing.
type metrics struct {
	count    *prometheus.CounterVec
	duration *prometheus.SummaryVec

	mu    sync.Mutex
	hosts map[string]bool // those that have series; tenants choose them
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	if to == nil {
		return &metrics{}, nil
	}
	labels := []string{"scheme", "host", "action", "method", "status"}
	m := &metrics{
		hosts: map[string]bool{},
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: requestCount, Help: "The number of requests made by the ACME client.",
		}, labels),
		duration: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: requestDuration, Help: "The time that requests of the ACME client take.",
			Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
		}, labels),
	}
	return m, errors.Join(collector.Share(to, &m.count), collector.Share(to, &m.duration))
}

// observe counts a request; resp is nil if it got no answer.
func (m *metrics) observe(a action, req *http.Request, resp *http.Response, took time.Duration) {
	if m.count == nil {
		return
	}
	status := noResponse
	if resp != nil {
		status = strconv.Itoa(resp.StatusCode)
	}
	labels := []string{req.URL.Scheme, m.host(req.URL.Host), string(a), req.Method, status}
	m.count.WithLabelValues(labels...).Inc()
	m.duration.WithLabelValues(labels...).Observe(took.Seconds())
}

// host returns the value of the label host.
func (m *metrics) host(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.hosts[name] && len(m.hosts) >= maxHosts {
		return hostOfTooMany
	}
	m.hosts[name] = true
	return name
}
