// Package acmevalidate tries the challenges of ACME orders. It is the only part of
// the program that connects to addresses which clients choose.
package acmevalidate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acmeserver/facts"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/share"
	"github.com/certplane/certplane/internal/turns"
	"github.com/certplane/certplane/internal/worker"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-validator"

// Network is what is not to be connected to, besides what endpoints say.
type Network struct {
	// API is the URL of the API, whose addresses are looked up.
	API string
	// Listeners are those of the process.
	Listeners []netip.AddrPort
	// Reserved has the addresses of Services and of etcd.
	Reserved []netip.Prefix
	// ClusterDomain is that of the cluster; empty without.
	ClusterDomain string
}

// Config is what the controller needs to run.
type Config struct {
	// Client is the controller's own identity. It needs update on acmeorders/status,
	// and serve on acmeendpoints.
	Client  client.Client
	Network Network
	// Attempts is where the ACME server of the same process asks for attempts; it can
	// be nil.
	Attempts *attempts.Desk
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records which challenges have failed.
	Events events.EventRecorder
	// Metrics, if not nil, is where metrics are registered.
	Metrics prometheus.Registerer
}

// The limits of attempts at the same time: in the process, of an account, and to one
// address.
const (
	maxAttempts   = 64
	maxOfAccount  = 4
	maxToAddress  = 8
	concurrency   = 8
	firstPause    = 200 * time.Millisecond
	lastPause     = time.Minute
	lookupTimeout = 5 * time.Second
)

type reconciler struct {
	Config
	cache   cache.Cache
	facts   *facts.Facts
	metrics *metrics
	// places are those of attempts, targets of connections to one address.
	places, targets *share.Places
	reserved        []netip.Prefix // only work writes it
	running         sync.WaitGroup

	mu    sync.Mutex // guards all below
	queue worker.Queue
	// busy has the challenges that are being tried.
	busy map[challenge]bool
}

// challenge is a challenge of an order.
type challenge struct {
	order client.ObjectKey
	acmeorder.Position
}

// Add adds the controller to mgr, whose cache it reads. It works while the API has
// AcmeOrders.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return err
	}
	r := &reconciler{
		Config: cfg, cache: mgr.GetCache(), facts: facts.New(mgr.GetCache()), metrics: metrics,
		places: share.NewPlaces(maxAttempts, maxOfAccount), targets: share.NewPlaces(0, maxToAddress), busy: map[challenge]bool{},
	}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding what tries the challenges of AcmeOrders: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "acmeorders", r.Versions).While(ctx, Name, "Trying the challenges of AcmeOrders", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	r.reserved = append(addressesOf(ctx, r.Network.API), r.Network.Reserved...)
	// Attempts go on when the look at their order has ended.
	trying := reconcile.Func(func(_ context.Context, key reconcile.Request) (reconcile.Result, error) { return r.look(ctx, key) })
	working, err := worker.New(ctx, Name, trying, worker.Options{Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause})
	if err != nil {
		return err
	}
	for _, watch := range []source.Source{
		source.Func(func(_ context.Context, queue worker.Queue) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = queue
			return nil
		}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, turns.New(r.Clock), asked()),
	} {
		if err := working.Watch(watch); err != nil {
			return fmt.Errorf("watching AcmeOrders: %w", err)
		}
	}
	defer r.running.Wait()
	defer r.Attempts.Offer(r.atOnce(ctx))()
	return working.Start(ctx)
}

// asked lets orders pass that have a challenge to be tried.
func asked() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isTrying(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isTrying(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return isTrying(e.Object) },
	}
}

func isTrying(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && o.DeletionTimestamp == nil && acmeorder.IsTrying(o)
}

// addressesOf returns the addresses of the host of a URL. Of a name that cannot be
// looked up none is known; it is not an address that a client could name either.
func addressesOf(ctx context.Context, at string) []netip.Prefix {
	parsed, err := url.Parse(at)
	if err != nil || parsed.Hostname() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", parsed.Hostname())
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot look up the addresses of the API, to which validations must not connect: put them into networks.deny of AcmeEndpoints", "host", parsed.Hostname())
	}
	var all []netip.Prefix
	for _, address := range addresses {
		if address = address.Unmap().WithZone(""); address.IsLoopback() {
			continue // closed anyway, and Listeners has the port
		}
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	return all
}
