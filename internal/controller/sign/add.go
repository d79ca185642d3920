// Package sign runs one signer: it answers approved CertificateSigningRequests
// with certificates, or says on them why not.
package sign

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/metrics"
	"github.com/certplane/certplane/internal/turns"
)

// Changes tells when what requests wait for has changed: it calls changed with
// what reports whether an approved request may have waited for it, until cancel is
// called.
type Changes func(changed func(waited func(*certificatesv1.CertificateSigningRequest) bool)) (cancel func())

// AnyChange returns the Changes of something for which all requests wait.
func AnyChange[T any](subscribe func(func(T)) (cancel func())) Changes {
	return func(changed func(func(*csr) bool)) (cancel func()) {
		return subscribe(func(T) { changed(func(*csr) bool { return true }) })
	}
}

// Config is what a signer needs to run.
type Config struct {
	// SignerName is the signer's name. It names the controller too.
	SignerName string
	// Selects reports whether requests with a spec.signerName are for this signer.
	// Nil: those with SignerName.
	Selects func(signerName string) bool
	// Several says that Selects chooses the requests of several signers, whose names
	// are in the requests: events and metrics tell them apart.
	Several bool
	// Sign answers the requests.
	Sign signer.Sign
	// Changes, if there are any, bring requests back that can be answered now.
	Changes Changes
	// Client is the signer's own identity at the API. It needs get on
	// certificatesigningrequests, update on their status and sign on the
	// signer. It must read past caches.
	Client client.Client
	// Answered, if there is one, is called with each final answer that is stored,
	// and when that was.
	Answered func(signerName string, issued bool, at time.Time)
	// Settings are the user's.
	Settings Settings
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Events, if there is one, tells of what happened in the signer's name.
	Events events.EventRecorder
	// IssuedEvent is the reason of Events about certificates; empty: Issued.
	IssuedEvent string
	// AwaitedEvent is the reason of Events about requests that wait for their
	// approval; empty: there are none.
	AwaitedEvent string
	// Metrics, if there is one, gets the signer's metrics. Signers that share
	// it share the metrics.
	Metrics prometheus.Registerer
}

// Add adds a signer to mgr, whose cache it reads.
func Add(mgr ctrl.Manager, cfg Config) error {
	r, err := newReconciler(mgr.GetCache(), cfg)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName(cfg.SignerName)).
		Watches(&certificatesv1.CertificateSigningRequest{}, turns.New(r.clock), builder.WithPredicates(r.predicate())).
		WatchesRawSource(r.retryAfter(cfg.Changes)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: cfg.Settings.withDefaults().Concurrency,
			RateLimiter:             backOff(),
			NewQueue:                newQueue(cfg.SignerName, cfg.Metrics),
			ReconciliationTimeout:   time.Minute,
			// Names are unique in a manager; a process can have several.
			SkipNameValidation: ptr.To(true),
		}).
		Complete(r)
}

func newReconciler(cache client.Reader, cfg Config) (*reconciler, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Selects == nil {
		cfg.Selects = func(signerName string) bool { return signerName == cfg.SignerName }
	}
	if err := cfg.Settings.withDefaults().Validate(); err != nil {
		return nil, err
	}
	counts, err := metrics.New(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of signer %s: %w", cfg.SignerName, err)
	}
	if !cfg.Several {
		counts.Begin(cfg.SignerName)
	}
	r := &reconciler{
		selects: cfg.Selects, sign: cfg.Sign, cache: cache, clock: cfg.Clock,
		reporter: reporter{
			signerName: cfg.SignerName, several: cfg.Several, answered: cfg.Answered, metrics: counts,
			events: cfg.Events, issuedEvent: cmp.Or(cfg.IssuedEvent, "Issued"), awaitedEvent: cfg.AwaitedEvent,
		},
	}
	r.requests = answer.SigningRequests(cfg.Client, "", cfg.Clock, func(c *csr) bool { return actionable(c, r.selects) })
	return r, nil
}

// controllerName is csrsigning-kubelet-client and the like: the name in logs
// and in the metrics of work queues.
func controllerName(signerName string) string { return "csrsigning-" + shortName(signerName) }

// predicate keeps out of the queue what there is nothing to do for.
func (r *reconciler) predicate() predicate.Predicate {
	wanted := func(o client.Object) bool {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && actionable(csr, r.selects)
	}
	awaited := func(o client.Object) bool {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && r.awaits(csr)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return wanted(e.Object) || awaited(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return wanted(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return wanted(e.Object) },
	}
}
