// Package acmeorders creates the requests of finalized ACME orders, as the ServiceAccounts
// of their accounts, and records their results in the orders.
package acmeorders

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"
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
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-orders"

// Config is the configuration of the controller.
type Config struct {
	// API is the controller's own identity. It acts as the ServiceAccounts of accounts, and
	// needs create on serviceaccounts/token for them.
	API *rest.Config
	// Client acts as the controller. It needs update on acmeorders/status, and serve
	// on acmeendpoints.
	Client client.Client
	// Attempts receives the orders that the ACME server of the same process is about to
	// store as processing. It can be nil.
	Attempts *attempts.Desk
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Open opens the sealed approvals of people. If it is nil, no approval counts for
	// later orders.
	Open quorum.OpenFunc
	// Revoked, if not nil, is what this server refuses: orders then say that their
	// certificates are revoked. Server is the user as which the ACME server works.
	Revoked *revocation.Index
	Server  string
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records the results of orders.
	Events events.EventRecorder
	// Metrics, if not nil, is the registry of the metrics.
	Metrics prometheus.Registerer
}

const (
	concurrency = 16
	// timeout limits the work on one order, which is a few requests to the API.
	timeout = time.Minute
	// The first and the longest pause after errors.
	firstPause = 200 * time.Millisecond
	lastPause  = time.Minute
)

type reconciler struct {
	Config
	cache cache.Cache
	// facts are read from the API: an account may just have been revoked.
	facts    *facts.Facts
	accounts *identities
	bundles  *bundles
	deleted  *deleted
	metrics  *metrics
	places   *semaphore.Weighted // for orders that are not stored yet
	indexed  bool                // only work uses it
}

// Add adds the controller to mgr, whose cache it reads. It works while the API has
// AcmeOrders.
func Add(mgr ctrl.Manager, cfg Config) error {
	r, err := newReconciler(mgr, cfg)
	if err != nil {
		return err
	}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the AcmeOrder controller: %w", err)
	}
	return nil
}

func newReconciler(mgr ctrl.Manager, cfg Config) (*reconciler, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	metrics, err := newMetrics(cfg.Metrics)
	return &reconciler{
		Config: cfg, cache: mgr.GetCache(), facts: facts.New(cfg.Client), metrics: metrics,
		bundles:  newBundles(cfg.Client, cfg.Clock),
		deleted:  newDeleted(),
		places:   semaphore.NewWeighted(concurrency),
		accounts: newIdentities(cfg.API, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}),
	}, err
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "acmeorders", r.Versions).While(ctx, Name, "Looking after AcmeOrders", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	if err := r.index(ctx); err != nil {
		return err
	}
	byRequest := handler.EnqueueRequestsFromMapFunc(r.ordersOf)
	requests := worker.OneVersion(cmv1.SchemeGroupVersion, "certificaterequests", r.Versions)
	working, err := worker.New(ctx, Name, r, worker.Options{Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: timeout},
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, fairqueue.New(r.Clock), finalized()),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, handler.EnqueueRequestsFromMapFunc(r.waitingBeside), approvedByPeople()),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, r.deleted.handler()),
		source.Kind[client.Object](r.cache, &certificatesv1.CertificateSigningRequest{}, byRequest, answers()),
		source.Func(func(ctx context.Context, queue worker.Queue) error {
			go requests.Follow(ctx, "Following CertificateRequests of AcmeOrders", func(ctx context.Context, _ string) error {
				if err := source.Kind[client.Object](r.cache, &cmv1.CertificateRequest{}, byRequest, answers()).Start(ctx, queue); err != nil {
					return err
				}
				<-ctx.Done()
				return ctx.Err()
			})
			return nil
		}),
	)
	if err != nil {
		return err
	}
	defer r.Attempts.OfferIssue(r.atOnce)()
	if r.Revoked != nil {
		go r.noteRevoked(ctx)
	}
	return working.Start(ctx)
}

// finalized passes orders when their processing begins. Writes of this controller do not
// queue an order again.
func finalized() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isProcessing(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isProcessing(e.ObjectNew) && !isProcessing(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return isProcessing(e.Object) },
	}
}

func isProcessing(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && o.Status.State == v1alpha1.AcmeOrderProcessing && o.DeletionTimestamp == nil
}

// answers passes requests whose answer may have changed.
func answers() predicate.Predicate {
	news := func(o client.Object) bool { return acmeorder.OrderOfRequest(o.GetName()) != "" }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return news(e.Object) && !waits(acmeorder.StandingOf(e.Object)) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return news(e.ObjectNew) && e.ObjectNew.GetResourceVersion() != e.ObjectOld.GetResourceVersion()
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return news(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return news(e.Object) },
	}
}

func waits(s acmeorder.Standing) bool {
	return s.Denied == nil && s.Failed == nil && s.Approved == nil && len(s.Certificate) == 0
}

// Indexes of orders in the cache: orders that are processing by the names of their
// requests, orders whose approval can matter for other orders by their accounts, and orders
// with a certificate by its serial number.
const (
	byRequest = "acme-orders.request"
	byAccount = "acme-orders.account"
	bySerial  = "acme-orders.serial"
)

// index adds the indexes to the cache. They stay even if the API temporarily does not serve
// the kinds.
func (r *reconciler) index(ctx context.Context) error {
	if r.indexed {
		return nil
	}
	for name, of := range map[string]func(*v1alpha1.AcmeOrder) string{
		byRequest: func(o *v1alpha1.AcmeOrder) string {
			if !isProcessing(o) {
				return ""
			}
			return acmeorder.RequestName(o)
		},
		byAccount: func(o *v1alpha1.AcmeOrder) string {
			if !isProcessing(o) && !carries(o) {
				return ""
			}
			return o.Spec.Account
		},
		bySerial: func(o *v1alpha1.AcmeOrder) string {
			if o.Status.Certificate == nil {
				return ""
			}
			return o.Status.Certificate.Serial
		},
	} {
		err := r.cache.IndexField(ctx, &v1alpha1.AcmeOrder{}, name, func(o client.Object) []string {
			if value := of(o.(*v1alpha1.AcmeOrder)); value != "" {
				return []string{value}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing AcmeOrders: %w", err)
		}
	}
	r.indexed = true
	return nil
}

// ordersOf returns the orders that wait for a request with this name. The labels of the
// request are not trusted.
func (r *reconciler) ordersOf(ctx context.Context, stored client.Object) []reconcile.Request {
	list := &v1alpha1.AcmeOrderList{}
	if err := r.cache.List(ctx, list, client.InNamespace(stored.GetNamespace()), client.MatchingFields{byRequest: stored.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the AcmeOrder of a request; the controller tries again later")
		return nil
	}
	return append(r.deleted.denied(stored), worker.RequestsOf[v1alpha1.AcmeOrder](list.Items, nil)...)
}
