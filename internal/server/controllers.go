package server

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/controller/aggregate"
	"github.com/certplane/certplane/internal/controller/garbage"
	"github.com/certplane/certplane/internal/controller/namespace"
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/controller/serviceaccount"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/keystore"
)

// controllerClients are the API clients of the controllers: one for the read
// cache that they share, and one for the writes of each.
type controllerClients struct {
	cache, csrSigner, aggregator, namespaces, accounts, publisher, garbage *rest.Config
}

func newControllerClients(ids identities) controllerClients {
	return controllerClients{
		cache:      ids.asAccount(cacheAccount),
		csrSigner:  ids.asAccount(csrSignerAccount),
		aggregator: ids.asAccount(aggregatorAccount),
		namespaces: ids.asAccount(namespaceAccount),
		accounts:   ids.asAccount(accountAccount),
		publisher:  ids.asAccount(publisherAccount),
		garbage:    ids.asAccount(garbageAccount),
	}
}

// setLogger gives controller-runtime, which keeps one logger for the process,
// that of everything else.
var setLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.Background()) })

// newControllers builds all controllers; the returned manager runs them.
func newControllers(clients controllerClients, credentials *credentials, settings sign.Settings) (ctrl.Manager, error) {
	setLogger()
	manager, err := ctrl.NewManager(clients.cache, ctrl.Options{
		Scheme:                 scheme.Scheme,
		Logger:                 klog.Background(),
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller manager: %w", err)
	}
	for _, controller := range []struct {
		name string
		add  func() error
	}{
		{"sign", func() error { return addSigner(manager, clients, credentials, settings) }},
		{"aggregate", func() error { return addAggregator(manager, clients) }},
		{"namespace", func() error { return addNamespaces(manager, clients) }},
		{"serviceaccount", func() error { return addAccounts(manager, clients) }},
		{"publish", func() error { return addPublisher(manager, clients, credentials) }},
		{"garbage", func() error { return addGarbage(manager, clients) }},
	} {
		if err := controller.add(); err != nil {
			return nil, fmt.Errorf("adding the %s controller: %w", controller.name, err)
		}
	}
	return manager, nil
}

func addSigner(manager ctrl.Manager, clients controllerClients, credentials *credentials, settings sign.Settings) error {
	ca, err := keystore.OpenFiles(credentials.clientCA.certFile, credentials.clientCA.keyFile)
	if err != nil {
		return err
	}
	signer, err := newClient(clients.csrSigner, manager)
	if err != nil {
		return err
	}
	recorder, err := newRecorder(clients.csrSigner, manager, "certplane.dev/"+csrSignerAccount)
	if err != nil {
		return err
	}
	return sign.Add(manager, sign.Config{
		Client: signer, CA: ca, Settings: settings, Events: recorder, Metrics: legacyregistry.Registerer(),
	})
}

func addAggregator(manager ctrl.Manager, clients controllerClients) error {
	aggregator, err := newClient(clients.aggregator, manager)
	if err != nil {
		return err
	}
	return aggregate.Add(manager, aggregate.Config{Client: aggregator})
}

func addNamespaces(manager ctrl.Manager, clients controllerClients) error {
	writer, err := newClient(clients.namespaces, manager)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(clients.namespaces)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(clients.namespaces)
	if err != nil {
		return err
	}
	return namespace.Add(manager, namespace.Config{
		Client: writer, Discover: kinds.ServerPreferredNamespacedResourcesWithContext, Objects: objects,
	})
}

func addAccounts(manager ctrl.Manager, clients controllerClients) error {
	writer, err := newClient(clients.accounts, manager)
	if err != nil {
		return err
	}
	accounts, err := newCacheOf(serviceaccount.Name, clients.cache, manager)
	if err != nil {
		return err
	}
	return serviceaccount.Add(manager, serviceaccount.Config{Client: writer, Accounts: accounts})
}

func addPublisher(manager ctrl.Manager, clients controllerClients, credentials *credentials) error {
	writer, err := newClient(clients.publisher, manager)
	if err != nil {
		return err
	}
	configMaps, err := newCacheOf(publish.Name, clients.cache, manager)
	if err != nil {
		return err
	}
	return publish.Add(manager, publish.Config{Client: writer, ConfigMaps: configMaps, CA: credentials.servingCA.chain})
}

func addGarbage(manager ctrl.Manager, clients controllerClients) error {
	kinds, err := discovery.NewDiscoveryClientForConfig(clients.garbage)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(clients.garbage)
	if err != nil {
		return err
	}
	return garbage.Add(manager, garbage.Config{Discovery: kinds, Objects: objects})
}

// newCacheOf returns a cache that holds, of every kind that is read from it,
// only the objects with this name: the rest would be too much.
func newCacheOf(name string, cfg *rest.Config, manager ctrl.Manager) (cache.Cache, error) {
	objects, err := cache.New(cfg, cache.Options{
		Scheme:               manager.GetScheme(),
		Mapper:               manager.GetRESTMapper(),
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", name),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of objects named %s: %w", name, err)
	}
	if err := manager.Add(objects); err != nil {
		return nil, fmt.Errorf("adding the cache of objects named %s: %w", name, err)
	}
	return objects, nil
}

// newClient returns a client that reads and writes as itself, past the cache.
func newClient(cfg *rest.Config, manager ctrl.Manager) (client.Client, error) {
	c, err := client.New(cfg, client.Options{Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a controller's client: %w", err)
	}
	return c, nil
}
