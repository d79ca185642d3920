package server

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/controller/aggregate"
	"github.com/certplane/certplane/internal/controller/garbage"
	"github.com/certplane/certplane/internal/controller/namespace"
	"github.com/certplane/certplane/internal/controller/serviceaccount"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/typecheck"
	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/roots"
)

// The accounts of the controllers that only a server of its own needs.
const (
	aggregatorAccount = "clusterrole-aggregation-controller"
	namespaceAccount  = "namespace-controller"
	accountAccount    = "service-account-controller"
	garbageAccount    = "generic-garbage-collector"
	policyAccount     = "validatingadmissionpolicy-status-controller"
	definitionAccount = "definition-installer"
)

// accounts are the parts of this process that call the API, each as itself.
// What a service account may do is in its bootstrap ClusterRole,
// system:controller:<name>.
func accounts() []string {
	return append(controllers.Accounts(), aggregatorAccount, namespaceAccount, accountAccount, garbageAccount, policyAccount, definitionAccount)
}

// newControllers builds all controllers; the returned manager runs them.
func newControllers(ids identities, credentials *credentials, settings controllers.Settings) (ctrl.Manager, error) {
	controllers.UseLogger()
	reader, err := ids.asAccount(controllers.CacheAccount)
	if err != nil {
		return nil, err
	}
	kinds, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(reader, ctrl.Options{
		Scheme:                 kinds,
		MapperProvider:         newMapper,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, // who wrote what is nothing to controllers
		Logger:                 klog.Background(),
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller manager: %w", err)
	}
	process := controllers.Process{Manager: manager, Namespace: accountNamespace, As: ids.asAccount, Metrics: legacyregistry.Registerer()}
	ca, err := openGenerated(process, credentials.clientCA.issuing)
	if err != nil {
		return nil, err
	}
	if err := addKeepers(process); err != nil {
		return nil, err
	}
	err = controllers.Add(process, controllers.Config{Settings: settings, CA: ca, RootCA: roots.Static(credentials.servingCA.chain...)})
	return manager, err
}

// openGenerated opens the CA of the signers for which none is configured.
func openGenerated(process controllers.Process, pair keyPair) (sign.CA, error) {
	settings := keystore.Settings{CertFile: pair.certFile, KeyFile: pair.keyFile}
	ca, err := keystore.Open(context.Background(), settings, keystore.Options{Name: "generated", Metrics: process.Metrics})
	if err != nil {
		return nil, err
	}
	return ca, process.Follow(ca)
}

// addKeepers adds the controllers that keep the API in order. In a cluster
// others do this.
func addKeepers(process controllers.Process) error {
	for _, keeper := range []struct {
		name string
		add  func(controllers.Process) error
	}{
		{"aggregate", addAggregator},
		{"namespace", addNamespaces},
		{"serviceaccount", addAccounts},
		{"garbage", addGarbage},
		{"typecheck", addTypeCheck},
		{"define", addDefinitions},
	} {
		if err := keeper.add(process); err != nil {
			return fmt.Errorf("adding the %s controller: %w", keeper.name, err)
		}
	}
	return nil
}

func addAggregator(process controllers.Process) error {
	aggregator, err := process.Client(aggregatorAccount)
	if err != nil {
		return err
	}
	return aggregate.Add(process.Manager, aggregate.Config{Client: aggregator})
}

func addNamespaces(process controllers.Process) error {
	writer, err := process.Client(namespaceAccount)
	if err != nil {
		return err
	}
	kinds, objects, err := anyKind(process, namespaceAccount)
	if err != nil {
		return err
	}
	return namespace.Add(process.Manager, namespace.Config{
		Client: writer, Discover: kinds.ServerPreferredNamespacedResourcesWithContext, Objects: objects,
	})
}

func addAccounts(process controllers.Process) error {
	writer, err := process.Client(accountAccount)
	if err != nil {
		return err
	}
	accounts, err := process.CacheOf(serviceaccount.Name)
	if err != nil {
		return err
	}
	return serviceaccount.Add(process.Manager, serviceaccount.Config{Client: writer, Accounts: accounts})
}

func addGarbage(process controllers.Process) error {
	kinds, objects, err := anyKind(process, garbageAccount)
	if err != nil {
		return err
	}
	return garbage.Add(process.Manager, garbage.Config{Discovery: kinds, Objects: objects})
}

func addTypeCheck(process controllers.Process) error {
	writer, err := process.Client(policyAccount)
	if err != nil {
		return err
	}
	cfg, err := process.As(policyAccount)
	if err != nil {
		return err
	}
	// Nobody else reads policies: the shared cache need not be allowed to.
	policies, err := cache.New(cfg, cache.Options{Scheme: process.Manager.GetScheme(), Mapper: process.Manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the cache of policies: %w", err)
	}
	if err := process.Manager.Add(policies); err != nil {
		return fmt.Errorf("adding the cache of policies: %w", err)
	}
	schemas, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: schemas},
		RestMapper:     process.Manager.GetRESTMapper(),
	}
	return typecheck.Add(process.Manager, typecheck.Config{Client: writer, Policies: policies, Check: checker.Check})
}

// anyKind returns clients for whatever kinds there are.
func anyKind(process controllers.Process, account string) (*discovery.DiscoveryClient, metadata.Interface, error) {
	cfg, err := process.As(account)
	if err != nil {
		return nil, nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(cfg)
	return kinds, objects, err
}
