package controllermanager

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/solver/incluster"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
)

// none as an address means that nothing is served.
const none = "0"

// Options configure how a process runs controllers.
type Options struct {
	// Namespace is the namespace of the service accounts.
	Namespace string
	// As returns the configuration with which a service account reaches the
	// API.
	As func(account string) (*rest.Config, error)
	// Metrics is where the controllers' metrics are registered.
	Metrics prometheus.Registerer
	// Mapper maps the kinds of the API. If it is nil, discovery is used.
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// OnCreate, if not nil, has the controllers approve and sign requests in the calls
	// that create them: the API is in this process.
	OnCreate *issueoncreate.Hub
	// Lease ensures that only one of several processes works at a time. It is
	// nil if this process is the only one.
	Lease *Lease
	// Announcement is logged once the controllers work.
	Announcement string
	// StopTimeout is how long controllers may take to finish their work; nil means half a
	// minute.
	StopTimeout *time.Duration
}

// NewProcess returns a process without controllers. Front ends, including the one for
// metrics, and probes are not part of it.
func NewProcess(o Options) (Process, error) {
	useLogger()
	reader, err := o.As(rights.CacheAccount)
	if err != nil {
		return Process{}, err
	}
	kinds, err := NewScheme()
	if err != nil {
		return Process{}, err
	}
	filling := &waits{}
	options := ctrl.Options{
		Scheme:         kinds,
		MapperProvider: o.Mapper,
		Cache: cache.Options{
			// Not of AcmeOrders alone (ByObject): that fails in clusters without this kind.
			DefaultTransform: trim,
			NewInformer:      filling.tracking(inprocess.Informers(reader)),
		},
		Logger:  klog.Background(),
		Metrics: metricsserver.Options{BindAddress: none},
		// Names are unique in a manager, but a process can have several managers.
		Controller:              config.Controller{SkipNameValidation: ptr.To(true), CacheSyncTimeout: worker.NoTimeout},
		HealthProbeBindAddress:  none,
		GracefulShutdownTimeout: o.StopTimeout,
	}
	if err := o.Lease.apply(&options); err != nil {
		return Process{}, err
	}
	mgr, err := ctrl.NewManager(reader, options)
	if err != nil {
		return Process{}, fmt.Errorf("making the controller manager: %w", err)
	}
	if err := mgr.Add(Everywhere{filling}); err != nil {
		return Process{}, fmt.Errorf("adding the report about caches: %w", err)
	}
	p := Process{Manager: mgr, filling: filling, Reader: reader, Namespace: o.Namespace, As: o.As, Metrics: o.Metrics, OnCreate: o.OnCreate}
	return p, o.Lease.announce(mgr, o.Announcement)
}

// Process is what controllers use of the process that runs them.
type Process struct {
	// Manager runs the controllers. Its cache, which all of them share, reads
	// through Reader.
	Manager ctrl.Manager
	// Reader is the configuration with which rights.CacheAccount reaches the
	// API.
	Reader *rest.Config
	// Namespace is the namespace of the service accounts.
	Namespace string
	// As returns the configuration with which a service account reaches the
	// API.
	As func(account string) (*rest.Config, error)
	// Metrics is where the controllers' metrics are registered.
	Metrics prometheus.Registerer
	// OnCreate is nil unless the API is in this process.
	OnCreate *issueoncreate.Hub

	filling *waits
}

// useLogger sets the logger of controller-runtime, which has one for the whole
// process, to the process's own.
var useLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.Background()) })

// NewScheme returns the kinds that controllers work with. A manager writes to
// its scheme, so no other goroutine may read that scheme.
func NewScheme() (*runtime.Scheme, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds), certmanager.AddToScheme(kinds), approverpolicy.AddToScheme(kinds), trustmanager.AddToScheme(kinds), incluster.AddToScheme(kinds)); err != nil {
		return nil, fmt.Errorf("making the scheme of the controllers: %w", err)
	}
	return kinds, nil
}

// CacheOf returns a cache that holds, of every kind that is read from it, only the objects
// with this name, because there would be too many other objects.
func (p Process) CacheOf(name string) (cache.Cache, error) {
	return p.newCache(p.Reader, "objects named "+name, cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", name)})
}

// newCache returns a cache that runs with the manager, with or without its
// lease, and reads through api.
func (p Process) newCache(api *rest.Config, of string, options cache.Options) (cache.Cache, error) {
	options.Scheme, options.Mapper = p.Manager.GetScheme(), p.Manager.GetRESTMapper()
	options.NewInformer = p.filling.tracking(inprocess.Informers(api))
	objects, err := inprocess.NewCache(api, options)
	if err != nil {
		return nil, fmt.Errorf("making the cache of %s: %w", of, err)
	}
	if err := p.Manager.Add(Everywhere{objects}); err != nil {
		return nil, fmt.Errorf("adding the cache of %s: %w", of, err)
	}
	return objects, nil
}

// Everywhere runs with and without the lease.
type Everywhere struct{ manager.Runnable }

var _ manager.LeaderElectionRunnable = Everywhere{}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (Everywhere) NeedLeaderElection() bool { return false }
