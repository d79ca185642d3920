// Package sign runs one signer: it answers approved CertificateSigningRequests
// with certificates, or writes into their status why not.
package sign

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// Changes subscribes to changes of what requests wait for. It calls changed
// until cancel is called; the argument of changed reports whether an approved
// request may have waited for the change.
type Changes func(changed func(waited func(*certificatesv1.CertificateSigningRequest) bool)) (cancel func())

// AnyChange returns the Changes of something that all requests wait for.
func AnyChange[T any](subscribe func(func(T)) (cancel func())) Changes {
	return func(changed func(func(*csr) bool)) (cancel func()) {
		return subscribe(func(T) { changed(func(*csr) bool { return true }) })
	}
}

// Config is the configuration of a signer.
type Config struct {
	// SignerName is the signer's name. The controller is named after it.
	SignerName string
	// Selects reports whether requests with a spec.signerName are for this
	// signer. If it is nil, requests with SignerName are.
	Selects func(signerName string) bool
	// Several means that Selects chooses the requests of several signers.
	// Events and metrics distinguish the signers by the names in the requests.
	Several bool
	// Sign answers the requests.
	Sign signer.Sign
	// Policies, if not nil, must permit each certificate.
	Policies *policies.Policies
	// Changes, if not nil, triggers requests that can be answered now.
	Changes Changes
	// Client is the signer's own identity at the API. It needs get on
	// certificatesigningrequests, update on their status and sign on the
	// signer. It must read past caches.
	Client client.Client
	// OnCreate, if not nil, also answers requests within the calls that create them: those
	// of signers for which SignsOnCreate is true. If it is nil, of all.
	OnCreate      *issueoncreate.Hub
	SignsOnCreate func(signerName string) bool
	// Answered, if not nil, is called with each final answer that is stored,
	// and the time of that.
	Answered func(signerName string, issued bool, at time.Time)
	// Records, if not nil, records each certificate before it is stored.
	Records *outcome.Records
	// Settings are the user's settings.
	Settings Settings
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what happened in the signer's name.
	Events events.EventRecorder
	// IssuedEvent is the reason of Events about certificates; "" means Issued.
	IssuedEvent string
	// AwaitedEvent is the reason of Events about requests that wait for approval. If it is
	// empty, no such Events are recorded.
	AwaitedEvent string
	// Metrics, if not nil, is where the signer's metrics are registered.
	// Signers with the same registerer share the metrics.
	Metrics prometheus.Registerer
}

// Add adds a signer to mgr, whose cache it reads.
func Add(mgr ctrl.Manager, cfg Config) error {
	r, err := newReconciler(mgr.GetCache(), cfg)
	if err != nil {
		return err
	}
	if cfg.Several { // each write of a Secret can be a change
		if err := r.index(mgr.GetFieldIndexer(), cfg.SignerName); err != nil {
			return err
		}
	}
	if err := cfg.OnCreate.AddTo(mgr, issueoncreate.Step{
		Resource: certificatesv1.Resource("certificatesigningrequests"), Role: issueoncreate.Sign, Reconciler: r,
		Takes: func(o client.Object) bool {
			c, ok := o.(*csr)
			return ok && actionable(c, r.selects) && (cfg.SignsOnCreate == nil || cfg.SignsOnCreate(c.Spec.SignerName))
		},
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName(cfg.SignerName)).
		Watches(&certificatesv1.CertificateSigningRequest{}, fairqueue.New(r.clock), builder.WithPredicates(r.predicate())).
		WatchesRawSource(r.retryAfter(cfg.Changes)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: cfg.Settings.withDefaults().Concurrency,
			RateLimiter:             backOff(),
			NewQueue:                newQueue(cfg.SignerName, cfg.Metrics),
			ReconciliationTimeout:   time.Minute,
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
		selects: cfg.Selects, sign: cfg.Sign, policies: cfg.Policies, cache: issueoncreate.Reader(cache), clock: cfg.Clock,
		reporter: reporter{
			signerName: cfg.SignerName, several: cfg.Several, answered: cfg.Answered, metrics: counts,
			events: cfg.Events, issuedEvent: cmp.Or(cfg.IssuedEvent, "Issued"), awaitedEvent: cfg.AwaitedEvent,
		},
	}
	r.requests = outcome.SigningRequests(cfg.Client, "", cfg.Clock, func(c *csr) bool { return actionable(c, r.selects) })
	r.requests.Records = cfg.Records
	return r, nil
}

// controllerName returns the name in logs and in the metrics of work queues,
// such as csrsigning-kubelet-client.
func controllerName(signerName string) string { return "csrsigning-" + shortName(signerName) }

// predicate keeps requests that need no action out of the queue.
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
