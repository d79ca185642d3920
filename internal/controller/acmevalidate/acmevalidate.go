// Package acmevalidate validates the challenges of ACME orders. It is the only part of the
// program that connects to addresses chosen by clients.
package acmevalidate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
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
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-validator"

// Network lists addresses that validations never connect to, in addition to those that
// endpoints deny.
type Network struct {
	// URLs are the URLs of the API and of etcd; the addresses of their hosts are denied. On
	// addresses of this host, validations connect only to the ports 80 and 443.
	URLs []string
	// Listeners are the listeners of this process.
	Listeners []netip.AddrPort
	// Reserved are the networks of Services and other networks that are not for clients.
	Reserved []netip.Prefix
	// ClusterDomain is the DNS domain of the cluster; empty outside a cluster.
	ClusterDomain string
}

// Config is the configuration of the controller.
type Config struct {
	// Client is the controller's own identity. It needs update on acmeorders/status,
	// and serve on acmeendpoints.
	Client  client.Client
	Network Network
	// Attempts receives requests for attempts from the ACME server of the same process. It
	// can be nil.
	Attempts *attempts.Desk
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records Events about failed challenges.
	Events events.EventRecorder
	// Metrics, if not nil, is the registry of the metrics.
	Metrics prometheus.Registerer
}

// Limits of concurrent attempts: in the process, per account, and per address.
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
	// places limits concurrent attempts, targets concurrent connections to one address.
	places, targets *fairshare.Places
	reserved        atomic.Pointer[[]netip.Prefix]
	running         sync.WaitGroup

	mu    sync.Mutex // guards all below
	queue worker.Queue
	// busy holds the challenges that are being tried.
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
		places: fairshare.NewPlaces(maxAttempts, maxOfAccount), targets: fairshare.NewPlaces(0, maxToAddress), busy: map[challenge]bool{},
	}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the validator of AcmeOrder challenges: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "acmeorders", r.Versions).While(ctx, Name, "Validating the challenges of AcmeOrders", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	r.reserve(ctx)
	go wait.UntilWithContext(ctx, r.reserve, reserveEvery)
	// Attempts continue after the reconciliation of their order has returned.
	trying := reconcile.Func(func(_ context.Context, key reconcile.Request) (reconcile.Result, error) { return r.look(ctx, key) })
	working, err := worker.New(ctx, Name, trying, worker.Options{Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause},
		source.Func(func(_ context.Context, queue worker.Queue) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = queue
			return nil
		}),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, fairqueue.New(r.Clock), asked()),
	)
	if err != nil {
		return err
	}
	defer r.running.Wait()
	defer r.Attempts.Offer(r.atOnce(ctx))()
	return working.Start(ctx)
}

// asked passes orders that have a challenge to be tried.
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

// reserveEvery is how often the addresses of the API and of etcd are looked up.
const reserveEvery = time.Minute

// reserve looks up the addresses that validations must not connect to. If the lookup of a
// host fails, its previous addresses stay denied.
func (r *reconciler) reserve(ctx context.Context) {
	own, err := hostAddresses()
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot find the addresses of this host")
	}
	all := slices.Clone(r.Network.Reserved)
	for _, at := range r.Network.URLs {
		found, err := addressesOf(ctx, at)
		if err != nil {
			if before := r.reserved.Load(); before != nil {
				return
			}
			log.FromContext(ctx).Error(err, "Cannot look up addresses of the API or of etcd, to which validations must not connect: add them to acmeServer.reservedNetworks", "url", at)
		}
		for _, address := range found {
			if !address.IsLoopback() && !slices.Contains(own, address) {
				all = append(all, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	r.reserved.Store(&all)
}

// addressesOf returns the addresses of the host of a URL.
func addressesOf(ctx context.Context, at string) ([]netip.Addr, error) {
	parsed, err := url.Parse(at)
	if err != nil || parsed.Hostname() == "" {
		return nil, nil // such as that of a socket
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", parsed.Hostname())
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", parsed.Hostname(), err)
	}
	for i := range found {
		found[i] = found[i].Unmap().WithZone("")
	}
	return found, nil
}
