// Package certmetrics implements the metrics of cert-manager.io, with the names and labels
// that cert-manager uses, and additional metrics of certplane.
package certmetrics

import (
	"context"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/process/collector"
)

const namespace = "certmanager"

// Metrics are shared by the controllers of a process. They are safe for concurrent use; A
// nil value neither counts nor exports.
type Metrics struct {
	calls, failures *prometheus.CounterVec
	objects         *objects
	acme            acmeMetrics
}

// New registers the metrics, or joins those that are registered already. With a
// nil registry they are not exported.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "controller_sync_call_count", Help: "Number of reconciliations of objects by a controller.",
		}, []string{"controller"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "controller_sync_error_count", Help: "Number of failed reconciliations, not counting conflicts with other changes.",
		}, []string{"controller"}),
		objects: newObjects(), acme: newACMEMetrics(),
	}
	if err := shareClock(registry); err != nil {
		return nil, err
	}
	for _, share := range []func() error{
		func() error { return collector.Share(registry, &m.calls) },
		func() error { return collector.Share(registry, &m.failures) },
		func() error { return collector.Share(registry, &m.objects) },
		func() error { return collector.Share(registry, &m.acme.orders) },
		func() error { return collector.Share(registry, &m.acme.challenges) },
		func() error { return collector.Share(registry, &m.acme.waits) },
	} {
		if err := share(); err != nil {
			return nil, fmt.Errorf("registering the metrics of cert-manager.io: %w", err)
		}
	}
	return m, nil
}

// shareClock registers the time, both as a gauge and as a counter.
func shareClock(registry prometheus.Registerer) error {
	seconds := func() float64 { return float64(time.Now().Unix()) }
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "clock_time_seconds_gauge", Help: "The time, in seconds since 1970.",
	}, seconds)
	// This one is a counter by mistake, and is kept for those that use it.
	counter := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Name: "clock_time_seconds", Help: "Deprecated: use clock_time_seconds_gauge.",
	}, seconds)
	if err := collector.Share(registry, &gauge); err != nil {
		return fmt.Errorf("registering the clock: %w", err)
	}
	if err := collector.Share(registry, &counter); err != nil {
		return fmt.Errorf("registering the clock: %w", err)
	}
	return nil
}

// Count returns a reconciler that counts the calls of next.
func (m *Metrics) Count(controller string, next reconcile.Reconciler) reconcile.Reconciler {
	if m == nil {
		return next
	}
	return counted{next: next, calls: m.calls.WithLabelValues(controller), failures: m.failures.WithLabelValues(controller)}
}

type counted struct {
	next            reconcile.Reconciler
	calls, failures prometheus.Counter
}

// Reconcile implements reconcile.Reconciler.
func (c counted) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	c.calls.Inc()
	result, err := c.next.Reconcile(ctx, key)
	if err != nil && !apierrors.IsConflict(err) {
		c.failures.Inc()
	}
	return result, err
}

// ShowCertificates exports series for the Certificates of a cache until stop is
// called. They must exist until then, and are not modified.
func (m *Metrics) ShowCertificates(list func(context.Context) []*cmv1.Certificate) (stop func()) {
	if m == nil {
		return func() {}
	}
	return m.objects.add(source{certificates: list})
}

// ShowIssuers is ShowCertificates for Issuers or ClusterIssuers.
func (m *Metrics) ShowIssuers(list func(context.Context) []cmv1.GenericIssuer) (stop func()) {
	if m == nil {
		return func() {}
	}
	return m.objects.add(source{issuers: list})
}

// ShowChallenges is ShowCertificates for Challenges.
func (m *Metrics) ShowChallenges(list func(context.Context) []*acmev1.Challenge) (stop func()) {
	if m == nil {
		return func() {}
	}
	return m.objects.add(source{challenges: list})
}
