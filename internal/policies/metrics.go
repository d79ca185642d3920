package policies

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/process/collector"
)

// metrics are those of all decisions of a process. Their labels have names and
// addresses of policies in them, and never a value of a request.
type metrics struct {
	decisions, violations, shadow, errors, votes, overrides, quotas *prometheus.CounterVec
	duration                                                        *prometheus.HistogramVec
	ready, waiting, expires                                         *prometheus.GaugeVec
	age                                                             prometheus.Gauge

	mu sync.Mutex // guards all below
	// policies and exceptions are the names that have metrics.
	policies, exceptions map[string]bool
}

// otherSigner is the label of signers that neither policies name nor this program
// has: requesters choose the names of signers.
const otherSigner = "other"

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{policies: map[string]bool{}, exceptions: map[string]bool{}}
	err := errors.Join(
		counter(registry, &m.decisions, "decisions_total",
			"Number of decisions about requests, by stage, kind, signer and outcome. One that is made again without a change is not counted again.",
			"stage", "kind", "signer", "outcome"),
		counter(registry, &m.violations, "violations_total", "Number of conditions that requests have violated, by policy and address.", "policy", "at"),
		counter(registry, &m.shadow, "shadow_total",
			"Number of decisions that a policy in the mode Shadow or Warn has looked at, by policy, outcome, and what the outcome would have been.",
			"policy", "was", "would"),
		counter(registry, &m.errors, "errors_total", "Number of expressions that have failed in decisions, by policy.", "policy"),
		counter(registry, &m.votes, "votes_total",
			"Number of approvals by people for policies that require several, by policy and result: recorded, complete, or refused.", "policy", "result"),
		counter(registry, &m.overrides, "overrides_total", "Number of approvals in the place of all people whom a policy requires, by policy.", "policy"),
		counter(registry, &m.quotas, "quota_refused_total", "Number of requests that did not fit into a quota, by policy and quota.", "policy", "quota"),
		gauge(registry, &m.ready, "ready", "Whether a policy is valid, by policy.", "policy"),
		gauge(registry, &m.waiting, "waiting", "Number of requests that wait for people, by policy.", "policy"),
		gauge(registry, &m.expires, "exception_expires_seconds", "When an exception ends, in seconds since 1970, by exception.", "exception"),
	)
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "certplane", Subsystem: "policy", Name: "duration_seconds", Buckets: prometheus.ExponentialBuckets(0.00005, 2, 16),
		Help: "Time that it took to decide about a request, with the facts that policies read, by stage.",
	}, []string{"stage"})
	m.age = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "certplane", Subsystem: "policy", Name: "set_age_seconds", Help: "For how long changes of policies may have been missed; 0 while they are followed.",
	})
	if err = errors.Join(err, collector.Share(registry, &m.duration), collector.Share(registry, &m.age)); err != nil {
		return nil, fmt.Errorf("registering the metrics of certificate policies: %w", err)
	}
	return m, nil
}

func counter(registry prometheus.Registerer, metric **prometheus.CounterVec, name, help string, labels ...string) error {
	*metric = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "certplane", Subsystem: "policy", Name: name, Help: help}, labels)
	return collector.Share(registry, metric)
}

func gauge(registry prometheus.Registerer, metric **prometheus.GaugeVec, name, help string, labels ...string) error {
	*metric = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "certplane", Subsystem: "policy", Name: name, Help: help}, labels)
	return collector.Share(registry, metric)
}

// took counts the time of a decision.
func (m *metrics) took(stage v1alpha1.DecisionStage, d time.Duration) {
	m.duration.WithLabelValues(string(stage)).Observe(d.Seconds())
}

// decided counts a decision.
func (m *metrics) decided(d *v1alpha1.PolicyDecision, signer string) {
	m.decisions.WithLabelValues(string(d.Stage), string(d.Request.Kind), signer, string(d.Outcome)).Inc()
	for _, v := range d.Violations {
		if v.Exception != "" {
			continue
		}
		m.violations.WithLabelValues(v.Policy, v.At).Inc()
		if v.Reason == certpolicy.ReasonExpression {
			m.errors.WithLabelValues(v.Policy).Inc()
		}
		if quota, is := certpolicy.QuotaAt(v.At); is {
			m.quotas.WithLabelValues(v.Policy, quota).Inc()
		}
	}
	for _, s := range d.Shadow {
		m.shadow.WithLabelValues(s.Policy, string(d.Outcome), string(s.Outcome)).Inc()
	}
}

// inForce shows the policies and exceptions of a set, and forgets those that are
// not in it.
func (m *metrics) inForce(set *certpolicy.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	policies, exceptions := map[string]bool{}, map[string]bool{}
	for _, p := range set.Policies() {
		policies[p.Name()] = true
		valid := 0.0
		if p.Err() == nil {
			valid = 1
		}
		m.ready.WithLabelValues(p.Name()).Set(valid)
		if p.Overridable() {
			m.overrides.WithLabelValues(p.Name()) // zero, so that the first one is an increase
		}
	}
	for _, x := range set.Exceptions() {
		exceptions[x.Name()] = true
		m.expires.WithLabelValues(x.Name()).Set(float64(x.Spec().NotAfter.Unix()))
	}
	for name := range m.policies {
		if !policies[name] {
			m.forget(name)
		}
	}
	for name := range m.exceptions {
		if !exceptions[name] {
			m.expires.DeleteLabelValues(name)
		}
	}
	m.policies, m.exceptions = policies, exceptions
}

// forget removes what is about a policy.
func (m *metrics) forget(policy string) {
	labels := prometheus.Labels{"policy": policy}
	for _, one := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.violations, m.shadow, m.errors, m.votes, m.overrides, m.quotas, m.ready, m.waiting} {
		one.DeletePartialMatch(labels)
	}
}
