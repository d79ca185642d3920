package controllers

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/served"
)

// Process is what controllers find in the process that runs them.
type Process struct {
	// Manager runs them. Its cache, which all share, belongs to CacheAccount.
	Manager ctrl.Manager
	// Namespace is where the service accounts are.
	Namespace string
	// As returns how to reach the API as one of Accounts.
	As func(account string) (*rest.Config, error)
	// Metrics gets the controllers' metrics.
	Metrics prometheus.Registerer
}

// UseLogger gives controller-runtime, which keeps one logger for the process,
// that of everything else.
var UseLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.Background()) })

// Client returns a client that reads and writes as an account, past the cache.
func (p Process) Client(account string) (client.Client, error) {
	cfg, err := p.As(account)
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	// Which version of a kind is used is decided, and is no news each time.
	cfg.WarningHandler = rest.NoWarnings{}
	c, err := client.New(cfg, client.Options{Scheme: p.Manager.GetScheme(), Mapper: p.Manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", account, err)
	}
	return c, nil
}

// Actor returns the client and the recorder of events of an account.
func (p Process) Actor(account string) (client.Client, events.EventRecorder, error) {
	writer, err := p.Client(account)
	if err != nil {
		return nil, nil, err
	}
	recorder, err := p.Recorder(account)
	return writer, recorder, err
}

// Versions returns what tells which resources a version of the API has. Every
// account may know.
func (p Process) Versions(account string) (served.Lookup, error) {
	cfg, err := p.As(account)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client for discovery: %w", err)
	}
	return kinds.ServerResourcesForGroupVersionWithContext, nil
}

// NewScheme returns the kinds that controllers work with. A manager writes to
// its scheme: it must have one that nobody else reads.
func NewScheme() (*runtime.Scheme, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds), certmanager.AddToScheme(kinds)); err != nil {
		return nil, fmt.Errorf("making the scheme of the controllers: %w", err)
	}
	return kinds, nil
}

// CacheOf returns a cache that holds, of every kind that is read from it, only
// the objects with this name: the rest would be too much.
func (p Process) CacheOf(name string) (cache.Cache, error) {
	cfg, err := p.As(CacheAccount)
	if err != nil {
		return nil, err
	}
	objects, err := cache.New(cfg, cache.Options{
		Scheme:               p.Manager.GetScheme(),
		Mapper:               p.Manager.GetRESTMapper(),
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", name),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of objects named %s: %w", name, err)
	}
	if err := p.Manager.Add(objects); err != nil {
		return nil, fmt.Errorf("adding the cache of objects named %s: %w", name, err)
	}
	return objects, nil
}
