package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/process/worker"
)

// Run runs a controller in its own manager until ctx ends, and then returns nil. options
// are the options of controller-runtime: leader election, the addresses of metrics and
// probes, the watched namespaces. If options set no scheme, Run creates one. The name of
// the lease is c.Name unless options set another one, and the lease is released at the end.
//
// Run fails at once if c or options are invalid, and later if the lease is
// lost: the process should exit then.
func Run(ctx context.Context, config *rest.Config, c Controller, options ctrl.Options) error {
	if _, err := c.withDefaults(); err != nil {
		return fmt.Errorf("issuer.Controller: %w", err)
	}
	if options.Scheme == nil {
		options.Scheme = runtime.NewScheme()
		if err := clientgoscheme.AddToScheme(options.Scheme); err != nil {
			return err
		}
	}
	options.LeaderElectionID = cmp.Or(options.LeaderElectionID, c.Name)
	options.LeaderElectionReleaseOnCancel = true
	if options.Cache.DefaultTransform == nil {
		options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return fmt.Errorf("adding the probes: %w", err)
	}
	if err := Add(mgr, c); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// Add adds a controller to a manager, for programs that run other controllers
// in it too. It must be called before the manager starts. It adds the kinds
// that the controller uses to the manager's scheme. The controller runs while
// the manager leads.
func Add(mgr ctrl.Manager, c Controller) error {
	c, err := c.withDefaults()
	if err != nil {
		return fmt.Errorf("issuer.Controller: %w", err)
	}
	if err := register(mgr.GetScheme(), c.AddToScheme); err != nil {
		return fmt.Errorf("issuer.Controller: field AddToScheme: %w", err)
	}
	ks, err := known(mgr.GetScheme(), c.Kinds)
	if err != nil {
		return fmt.Errorf("issuer.Controller: %w", err)
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	asking, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the client for discovery: %w", err)
	}
	return mgr.Add(&controller{
		Controller: c, mgr: mgr, kinds: ks, cache: mgr.GetCache(), client: direct,
		lookup: asking.ServerResourcesForGroupVersionWithContext,
		events: mgr.GetEventRecorder(c.Name), faults: newFaults(),
	})
}

// register adds all types that a controller reads and writes to a scheme.
func register(scheme *runtime.Scheme, own func(*runtime.Scheme) error) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, certificatesv1.AddToScheme, authorizationv1.AddToScheme, cmv1.AddToScheme, own,
	} {
		if add == nil {
			continue
		}
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// controller is a running Controller.
type controller struct {
	Controller
	mgr    ctrl.Manager
	kinds  kinds
	cache  cache.Cache
	client client.Client // past the cache
	lookup worker.Lookup
	events events.EventRecorder
	// faults are the faults of issuers that Sign has reported.
	faults *faults
}

var _ manager.LeaderElectionRunnable = (*controller)(nil)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *controller) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, c.mgr.GetLogger().WithName(c.Name))
	if !c.waitForKinds(ctx) {
		return nil
	}
	parts := []worker.Part{requestWorker[*cmv1.CertificateRequest]{c, certificateRequests, newFailing()}}
	if !c.IgnoreSigningRequests {
		parts = append(parts, requestWorker[*certificatesv1.CertificateSigningRequest]{c, signingRequests, newFailing()})
	}
	for _, k := range c.kinds {
		parts = append(parts, issuers{c, k})
	}
	return worker.Run(ctx, parts...)
}

// lookEvery is the interval at which Run looks for kinds that the API does not serve yet.
const lookEvery = 2 * time.Second

// waitForKinds waits until the API serves all kinds of issuers. It returns
// false if ctx ends before.
func (c *controller) waitForKinds(ctx context.Context) bool {
	said := ""
	for {
		err := c.kinds.resolve(ctx, c.lookup)
		if err == nil {
			return true
		}
		if state := err.Error(); state != said && ctx.Err() == nil {
			said = state
			if errors.Is(err, errNotServed) {
				log.FromContext(ctx).Info("Waiting for the definitions of issuers", "why", state)
			} else {
				log.FromContext(ctx).Error(err, "Cannot work with the kinds of issuers; looking again")
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookEvery):
		}
	}
}
