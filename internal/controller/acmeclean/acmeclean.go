// Package acmeclean ends and deletes expired objects of the ACME server: orders, accounts,
// account keys, and requests of ended orders. No other package deletes them.
package acmeclean

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/steadyclock"
	"github.com/certplane/certplane/internal/process/worker"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-cleaner"

// Config is the configuration of the cleaner.
type Config struct {
	// Client is the cleaner's own identity. It needs delete on the kinds that it cleans up,
	// and serve on acmeendpoints.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Clock is the clock; nil means the machine's clock, protected against jumps ahead.
	Clock clock.PassiveClock
	// Events, if not nil, records Events about ended orders.
	Events events.EventRecorder
}

const (
	timeout = time.Minute
	// The first and the longest pause after errors.
	firstPause = time.Second
	lastPause  = 10 * time.Minute
	// lookAgain is the longest time between two checks of an object: the settings of its
	// endpoint may have changed.
	lookAgain = 24 * time.Hour
)

type reconciler struct {
	Config
	// cache holds orders without their large fields.
	cache cache.Cache
	// seen reads facts from the cache, stored from the API. The cache can contain an
	// account before its external key, and ending an object is final.
	seen, stored *facts.Facts
	indexed      bool // only work uses it
}

// Add adds the cleaner to mgr, whose cache it reads. It works while the API has
// AcmeOrders.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = steadyclock.New()
	}
	r := &reconciler{Config: cfg, cache: mgr.GetCache(), seen: facts.New(mgr.GetCache()), stored: facts.New(cfg.Client)}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the cleaner of the ACME server: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "acmeorders", r.Versions).While(ctx, Name, "Cleaning up after the ACME server", r.work)
}

// what is a kind of objects and the function that cleans them up.
type what struct {
	name    string
	look    reconcile.Func
	sources []source.Source
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	if err := r.index(ctx); err != nil {
		return err
	}
	self, changed := &handler.EnqueueRequestForObject{}, predicate.ResourceVersionChangedPredicate{}
	of := func(look func(context.Context, client.Object) []reconcile.Request) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(look)
	}
	var parts []worker.Part
	for _, each := range []what{
		{"orders", r.cleanOrder, []source.Source{
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, self, changed),
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, of(r.ordersOfAccount), endings()),
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeExternalKey{}, of(r.ordersOfKey), endings()),
		}},
		{"accounts", r.cleanAccount, []source.Source{
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, self, changed),
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeExternalKey{}, of(r.accountsOfKey), endings()),
		}},
		{"keys", r.cleanKey, []source.Source{
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccountKey{}, self, changed),
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeAccount{}, of(r.keysOfAccount), deletions()),
		}},
		{"requests", r.cleanRequest, []source.Source{
			source.Kind[client.Object](r.cache, &certificatesv1.CertificateSigningRequest{}, self, waiting()),
			source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, of(requestOf), over()),
		}},
	} {
		cleaning, err := worker.New(ctx, Name+"-"+each.name, each.look, worker.Options{Concurrency: 2, FirstPause: firstPause, LastPause: lastPause, Timeout: timeout}, each.sources...)
		if err != nil {
			return err
		}
		parts = append(parts, cleaning)
	}
	return worker.Run(ctx, parts...)
}

// endings passes objects that may have ended. New objects have no orders.
func endings() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectNew.GetGeneration() != e.ObjectOld.GetGeneration() || e.ObjectNew.GetUID() != e.ObjectOld.GetUID()
		},
	}
}

func deletions() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// over passes orders that were deleted or became invalid.
func over() predicate.Predicate {
	invalid := func(object client.Object) bool {
		o, ok := object.(*v1alpha1.AcmeOrder)
		return ok && o.Status.State == v1alpha1.AcmeOrderInvalid && o.Status.Request != nil
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // its request is looked at anyway
		UpdateFunc: func(e event.UpdateEvent) bool { return invalid(e.ObjectNew) && !invalid(e.ObjectOld) },
	}
}

// waiting passes unanswered requests whose name is the name of an order's request.
func waiting() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && acmeorder.OrderOfRequest(csr.Name) != "" && isPending(csr)
	})
}

// again returns the result that queues an object at a time; the zero time means never.
func (r *reconciler) again(at time.Time) reconcile.Result {
	if at.IsZero() {
		return reconcile.Result{RequeueAfter: lookAgain}
	}
	return reconcile.Result{RequeueAfter: min(max(at.Sub(r.Clock.Now()), time.Second), lookAgain)}
}
