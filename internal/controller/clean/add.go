// Package clean deletes requests for certificates whose time is over.
package clean

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clientqueue "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/process/steadyclock"
)

// concurrency is the number of requests that are deleted at the same time. Requests that
// were made together are due together, and the store has other clients to serve.
const concurrency = 4

// Config is the configuration of the cleaner.
type Config struct {
	// Client is the cleaner's own identity at the API. It needs delete on
	// certificatesigningrequests.
	Client client.Writer
	// Settings are the user's settings.
	Settings Settings
	// Recorded, if not nil, reports whether the certificate of a request of a kind is recorded:
	// otherwise the request is deleted up to ten minutes late.
	Recorded func(kind string, request types.UID) bool
	// Clock is the clock; nil means the machine's clock, protected against jumps ahead.
	Clock clock.PassiveClock
	// Events, if not nil, records requests that end without an outcome.
	Events events.EventRecorder
	// Metrics, if not nil, is where the cleaner's metrics are registered.
	Metrics prometheus.Registerer
}

// Add adds the cleaner to mgr, whose cache it reads.
func Add(mgr ctrl.Manager, cfg Config) error {
	if err := cfg.Settings.Validate(); err != nil {
		return err
	}
	if cfg.Clock == nil {
		cfg.Clock = steadyclock.New()
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("registering the cleaner's metrics: %w", err)
	}
	deleter := &deleter{client: cfg.Client, report: reporter{metrics: metrics, events: cfg.Events}, await: newRecordWait(cfg.Recorded, cfg.Clock)}
	if err := addRetention(mgr, cfg, deleter); err != nil || cfg.Settings.PerRequester.Max == 0 && cfg.Settings.PerRequester.MaxMiB == 0 {
		return err
	}
	return addCap(mgr, cfg, deleter)
}

// addRetention adds the controller that deletes old requests.
func addRetention(mgr ctrl.Manager, cfg Config, deleter *deleter) error {
	r := &expirer{cache: mgr.GetCache(), clock: cfg.Clock, limits: cfg.Settings.limits(), deleter: deleter}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("csrcleaner").
		Watches(&certificatesv1.CertificateSigningRequest{}, r.schedule()).
		WithOptions(options(concurrency)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the cleaner: %w", err)
	}
	return nil
}

// addCap adds the controller that deletes requests of requesters that have too
// many.
func addCap(mgr ctrl.Manager, cfg Config, deleter *deleter) error {
	r := &quota{
		cache: mgr.GetCache(), clock: cfg.Clock, limit: cfg.Settings.cap(),
		index: newRequesterIndex(cfg.Settings.PerRequester.ExemptGroups), deleter: deleter,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("csrcleaner-cap").
		Watches(&certificatesv1.CertificateSigningRequest{}, r.schedule()).
		WithOptions(options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the cap on requests: %w", err)
	}
	return nil
}

// The first and the longest wait before the next attempt to delete a request,
// and how long an attempt may take.
const (
	firstPause  = 200 * time.Millisecond
	lastPause   = 5 * time.Minute
	workTimeout = time.Minute
)

func options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             clientqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstPause, lastPause),
		ReconciliationTimeout:   workTimeout,
	}
}
