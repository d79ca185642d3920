package server

import (
	"fmt"
	"sync"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/controller/aggregate"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/keystore"
)

// controllerClients are the API clients of the controllers: one for the read
// cache that they share, and one for the writes of each.
type controllerClients struct {
	cache, csrSigner, aggregator *rest.Config
}

func newControllerClients(ids identities) controllerClients {
	return controllerClients{
		cache:      ids.asAccount(cacheAccount),
		csrSigner:  ids.asAccount(csrSignerAccount),
		aggregator: ids.asAccount(aggregatorAccount),
	}
}

// setLogger gives controller-runtime, which keeps one logger for the process,
// that of everything else.
var setLogger = sync.OnceFunc(func() { ctrl.SetLogger(klog.Background()) })

// newControllers builds all controllers; the returned manager runs them.
func newControllers(clients controllerClients, credentials *credentials, settings sign.Settings) (ctrl.Manager, error) {
	ca, err := keystore.OpenFiles(credentials.clientCA.certFile, credentials.clientCA.keyFile)
	if err != nil {
		return nil, err
	}
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
	signer, err := newClient(clients.csrSigner, manager)
	if err != nil {
		return nil, err
	}
	err = sign.Add(manager, sign.Config{Client: signer, CA: ca, Settings: settings, Metrics: legacyregistry.Registerer()})
	if err != nil {
		return nil, fmt.Errorf("adding the sign controller: %w", err)
	}
	aggregator, err := newClient(clients.aggregator, manager)
	if err != nil {
		return nil, err
	}
	if err := aggregate.Add(manager, aggregate.Config{Client: aggregator}); err != nil {
		return nil, fmt.Errorf("adding the aggregate controller: %w", err)
	}
	return manager, nil
}

// newClient returns a client that reads and writes as itself, past the cache.
func newClient(cfg *rest.Config, manager ctrl.Manager) (client.Client, error) {
	c, err := client.New(cfg, client.Options{Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a controller's client: %w", err)
	}
	return c, nil
}
