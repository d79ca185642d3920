// Package challenges solves the Challenges of ACME servers.
package challenges

import (
	"context"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
)

// Name is the controller's name on the command line.
const Name = "challenges"

// Component is the controller's name in managed fields and Events.
const Component = "cert-manager-" + Name

// Config is the configuration of the controller.
type Config struct {
	// Client is the controller's own identity. It must read past caches. It needs
	// get and update on challenges, update on their status and finalizers, and
	// get on namespaces.
	Client client.Client
	// Secrets notifies of changes of the Secrets that solvers read.
	Secrets *changewatch.Watcher
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// ClusterResources is the namespace of the Secrets of ClusterIssuers.
	ClusterResources string
	Settings         ChallengeSettings
	// Solvers returns the solver of a Challenge. Its errors are for the user.
	Solvers func(*acmev1.Challenge) (solver.Solver, error)
	// Clients returns a client with the account of an issuer. Its errors are for
	// the user.
	Clients func(context.Context, cmv1.GenericIssuer) (Client, error)
	// Suspect, if not nil, is called if the CA refuses an account: the issuer is to
	// be checked again.
	Suspect func(cmv1.GenericIssuer)
	// Workers is the number of Challenges that are presented, checked or validated at the
	// same time. Waiting does not occupy a worker. Zero means 10.
	Workers int
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Jitter varies the waits; nil means at random.
	Jitter backoff.Jitter
	// Events, if not nil, records Events about Challenges.
	Events events.EventRecorder
	// Metrics, if not nil, are the metrics of the Challenges and of the work on
	// them.
	Metrics *certmetrics.Metrics
}

// Client calls an ACME server with the account of an issuer. Its errors are
// *rfc8555.Problem for an error response of the server, *acme.LimitedError if the server
// must not be called now, and temporary otherwise.
type Client interface {
	Authorization(ctx context.Context, url string) (rfc8555.Authorization, error)
	Accept(ctx context.Context, url string) (rfc8555.Challenge, error)
}

const (
	// callTime is the time limit of one call of a solver or a CA.
	callTime = 30 * time.Second
	// passTime is the time limit of one pass over a Challenge.
	passTime = 4 * time.Minute
	// workers is the default number of workers.
	workers = 10
	// The first and the longest pause after errors of the API.
	firstPause, lastPause = time.Second, 5 * time.Minute
)

// Add adds the controller to mgr, whose cache it reads. It works while the API
// has Challenges.
func Add(mgr ctrl.Manager, cfg Config) error {
	if err := mgr.Add(&controller{cfg: cfg, cache: mgr.GetCache()}); err != nil {
		return fmt.Errorf("adding the Challenge controller: %w", err)
	}
	return nil
}

// controller runs a reconciler while the API has Challenges.
type controller struct {
	cfg   Config
	cache cache.Cache
}

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	return worker.OneVersion(acmev1.SchemeGroupVersion, "challenges", c.cfg.Versions).While(ctx, Name, "Solving Challenges", c.work)
}

func (c *controller) work(ctx context.Context, _ string) error {
	r := newReconciler(c.cfg, c.cache, c.cache)
	var existing acmev1.ChallengeList
	if err := r.objects.List(ctx, &existing, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Challenges: %w", err)
	}
	r.slots.seed(existing.Items)
	working, err := worker.New(ctx, Name, r.Metrics.Count(Name, r), worker.Options{
		Concurrency: r.Workers, FirstPause: firstPause, LastPause: lastPause, Timeout: passTime,
	}, r.watches()...)
	if err != nil {
		return err
	}
	defer r.Metrics.ShowChallenges(r.known)()
	return working.Start(ctx)
}

// reconciler takes the next steps of Challenges.
type reconciler struct {
	Config
	cache    cache.Cache   // for watches
	objects  client.Reader // reads from the cache
	slots    *slots
	memories *memories
}

func newReconciler(cfg Config, watches cache.Cache, objects client.Reader) *reconciler {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Jitter == nil {
		cfg.Jitter = backoff.Random
	}
	if cfg.Workers == 0 {
		cfg.Workers = workers
	}
	return &reconciler{
		Config: cfg, cache: watches, objects: objects,
		slots: newSlots(cfg.Settings.MaxConcurrentChallenges, cfg.Clock), memories: newMemories(),
	}
}

func (r *reconciler) watches() []source.Source {
	changes := predicate.ResourceVersionChangedPredicate{}
	return []source.Source{
		source.Func(r.followSlots),
		source.Kind[client.Object](r.cache, &acmev1.Challenge{}, &handler.EnqueueRequestForObject{}, changes),
		source.Kind[client.Object](r.cache, &cmv1.Issuer{}, r.issuerChanged(), changes),
		source.Kind[client.Object](r.cache, &cmv1.ClusterIssuer{}, r.issuerChanged(), changes),
		source.Func(r.followSecrets),
	}
}

// followSlots queues the Challenges that get a slot.
func (r *reconciler) followSlots(_ context.Context, q worker.Queue) error {
	r.slots.notify(func(key types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: key}) })
	return nil
}

// known returns the existing Challenges for metrics. The caller must not modify them.
func (r *reconciler) known(ctx context.Context) []*acmev1.Challenge {
	var list acmev1.ChallengeList
	if err := r.objects.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).V(1).Info("Cannot list Challenges for metrics", "error", err.Error())
	}
	known := make([]*acmev1.Challenge, len(list.Items))
	for i := range list.Items {
		known[i] = &list.Items[i]
	}
	return known
}

type (
	createEvent = event.CreateEvent
	updateEvent = event.UpdateEvent
	deleteEvent = event.DeleteEvent
)
