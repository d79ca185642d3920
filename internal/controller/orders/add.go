// Package orders takes the Orders of ACME issuers from the first request to the
// CA to the certificate.
package orders

import (
	"context"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// Name is the controller's name on the command line.
const Name = "orders"

// Component is the controller's name in managed fields and Events.
const Component = "cert-manager-" + Name

// Client makes the requests of one account to its CA. Its errors are
// *rfc8555.Problem for what the CA refuses, *acme.LimitedError for requests that
// have to wait, *acme.ProfileError for profiles that do not exist; others are
// temporary.
type Client interface {
	NewOrder(ctx context.Context, want rfc8555.OrderRequest) (rfc8555.Order, error)
	Order(ctx context.Context, url string) (rfc8555.Order, error)
	Finalize(ctx context.Context, finalizeURL, orderURL string, csrDER []byte) (rfc8555.Order, error)
	Certificate(ctx context.Context, url string) (chain [][]byte, alternates []string, err error)
	Authorization(ctx context.Context, url string) (rfc8555.Authorization, error)
	DeactivateAuthorization(ctx context.Context, url string) error
	KeyAuthorization(token string) string
	// NearLimit describes a limit that further orders like this one would reach;
	// "" if there is none.
	NearLimit(want rfc8555.OrderRequest) string
}

// Config is the configuration of the controller.
type Config struct {
	// Client is the controller's own identity. It must read past caches. It needs
	// get on orders and update on their status, create and delete on challenges.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Clients returns the client for the account of an issuer. Its error explains what is
	// missing.
	Clients func(ctx context.Context, issuer cmv1.GenericIssuer) (Client, error)
	// Suspect, if not nil, is called if the CA refuses an account: the issuer is to
	// be checked again.
	Suspect func(issuer cmv1.GenericIssuer)
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Jitter spreads the ends of waits; nil means a random one.
	Jitter backoff.Jitter
	// Events, if not nil, records what happened.
	Events events.EventRecorder
	// Metrics, if not nil, are the metrics of the work.
	Metrics *certmetrics.Metrics
}

const (
	// concurrency is the number of Orders that are processed at the same time. Each waits
	// only for answers of its CA.
	concurrency = 5
	// timeout limits the work on one Order, which makes a few requests at most.
	timeout = 2 * time.Minute
	// The first and the longest pause after API errors.
	firstPause = 5 * time.Second
	lastPause  = 30 * time.Minute
)

// Add adds the controller to mgr, whose cache it reads: Orders, Challenges and
// issuers. It works while the API has Orders.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Jitter == nil {
		cfg.Jitter = backoff.Random
	}
	r := newReconciler(cfg, mgr.GetCache())
	start := runnable{r, func(ctx context.Context, _ string) error { return r.work(ctx, mgr.GetCache()) }}
	if err := mgr.Add(start); err != nil {
		return fmt.Errorf("adding the Order controller: %w", err)
	}
	return nil
}

type runnable struct {
	*reconciler
	run func(ctx context.Context, version string) error
}

// Start implements manager.Runnable.
func (r runnable) Start(ctx context.Context) error {
	return worker.OneVersion(acmev1.SchemeGroupVersion, Name, r.Versions).While(ctx, Name, "Looking after Orders", r.run)
}

func (r *reconciler) work(ctx context.Context, cache cache.Cache) error {
	if err := r.index(ctx, cache); err != nil {
		return err
	}
	var counted reconcile.Reconciler = r
	if r.Metrics != nil {
		counted = r.Metrics.Count(Name, r)
	}
	changed := predicate.ResourceVersionChangedPredicate{}
	owner, waiting := handler.EnqueueRequestsFromMapFunc(orderOf), handler.EnqueueRequestsFromMapFunc(r.waitingFor)
	working, err := worker.New(ctx, Name, counted, worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: timeout,
	},
		source.Kind[client.Object](cache, &acmev1.Order{}, fairqueue.New(r.Clock)),
		source.Kind[client.Object](cache, &acmev1.Challenge{}, owner, changed),
		source.Kind[client.Object](cache, &cmv1.Issuer{}, waiting, changed),
		source.Kind[client.Object](cache, &cmv1.ClusterIssuer{}, waiting, changed),
	)
	if err != nil {
		return err
	}
	return working.Start(ctx)
}

// byNames is the index of Orders by their issuers and identifiers.
const byNames = "names"

func orderedNames(o client.Object) []string {
	if o, ok := o.(*acmev1.Order); ok {
		return []string{order.NamesKey(o)}
	}
	return nil
}

// byOrder is the index of Challenges by the name of the Order that controls them.
const byOrder = "order"

// index adds the indexes to a cache that keeps them for good: the API may lose
// the kinds and have them again.
func (r *reconciler) index(ctx context.Context, cache client.FieldIndexer) error {
	if r.indexed {
		return nil
	}
	if err := cache.IndexField(ctx, &acmev1.Challenge{}, byOrder, orderNames); err != nil {
		return fmt.Errorf("indexing Challenges by their Orders: %w", err)
	}
	if err := cache.IndexField(ctx, &acmev1.Order{}, byNames, orderedNames); err != nil {
		return fmt.Errorf("indexing Orders by their names: %w", err)
	}
	r.indexed = true
	return nil
}

func orderNames(challenge client.Object) []string {
	var names []string
	for _, of := range orderOf(context.Background(), challenge) {
		names = append(names, of.Name)
	}
	return names
}

// orderOf returns the Order that controls a Challenge.
func orderOf(_ context.Context, challenge client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(challenge)
	if owner == nil || owner.Kind != acmev1.OrderKind || owner.APIVersion != acmev1.SchemeGroupVersion.String() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: challenge.GetNamespace(), Name: owner.Name}}}
}

// waitingFor returns the unfinished Orders of an issuer.
func (r *reconciler) waitingFor(ctx context.Context, issuer client.Object) []reconcile.Request {
	_, isCluster := issuer.(*cmv1.ClusterIssuer)
	kind, list := cmv1.IssuerKind, &acmev1.OrderList{}
	if isCluster {
		kind = cmv1.ClusterIssuerKind
	}
	if err := r.cache.List(ctx, list, client.InNamespace(issuer.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the Orders that may wait for an issuer; the controller tries again later")
		return nil
	}
	var waiting []reconcile.Request
	for i := range list.Items {
		o := &list.Items[i]
		of := order.IssuerOf(o.Namespace, o.Spec.IssuerRef)
		if of.Kind == kind && of.Name == issuer.GetName() && of.Namespace == issuer.GetNamespace() && !order.IsFinal(o.Status.State) {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
	}
	return waiting
}
