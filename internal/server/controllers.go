package server

import (
	"context"
	"crypto"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	accountkeys "github.com/certplane/certplane/internal/authn/serviceaccount"
	"github.com/certplane/certplane/internal/controller/aggregate"
	"github.com/certplane/certplane/internal/controller/garbage"
	"github.com/certplane/certplane/internal/controller/namespace"
	"github.com/certplane/certplane/internal/controller/serviceaccount"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/token"
	"github.com/certplane/certplane/internal/controller/typecheck"
	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/roots"
	"github.com/certplane/certplane/internal/signer"
)

// The accounts of the controllers that only a server of its own needs.
const (
	aggregatorAccount = "clusterrole-aggregation-controller"
	namespaceAccount  = "namespace-controller"
	accountAccount    = "service-account-controller"
	tokenAccount      = "tokens-controller"
	garbageAccount    = "generic-garbage-collector"
	policyAccount     = "validatingadmissionpolicy-status-controller"
	definitionAccount = "definition-installer"
)

// accounts are the parts of this process that call the API, each as itself.
// What a service account may do is in its bootstrap ClusterRole,
// system:controller:<name>.
func accounts() []string {
	return append(controllers.Accounts(), aggregatorAccount, namespaceAccount, accountAccount, tokenAccount, garbageAccount, policyAccount, definitionAccount)
}

// clientCAs are those whose client certificates the API honours, and how more
// become so.
type clientCAs struct {
	honoured signer.Honoured
	honour   func(*pki.Authority)
}

// newControllers builds all controllers; the returned manager runs them, while
// it holds the lease if there is an election.
func newControllers(ids identities, credentials *credentials, settings controllers.Settings, clients clientCAs, election *election) (ctrl.Manager, error) {
	controllers.UseLogger()
	reader, err := ids.asAccount(controllers.CacheAccount)
	if err != nil {
		return nil, err
	}
	kinds, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                 kinds,
		MapperProvider:         newMapper,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, // who wrote what is nothing to controllers
		Logger:                 klog.Background(),
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	}
	if err := election.apply(&options); err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(reader, options)
	if err != nil {
		return nil, fmt.Errorf("making the controller manager: %w", err)
	}
	process := controllers.Process{Manager: manager, Namespace: accountNamespace, As: ids.asAccount, Metrics: legacyregistry.Registerer()}
	ca, err := openGenerated(process, credentials.clientCA.issuing)
	if err != nil {
		return nil, err
	}
	config := controllers.Config{
		Settings: settings, CA: ca, RootCA: roots.Static(credentials.servingCA.chain...),
		Honoured: clients.honoured, Honour: clients.honour,
	}
	if err := addKeepers(process, config, credentials.serviceAccountKey); err != nil {
		return nil, err
	}
	if err := controllers.Add(process, config); err != nil {
		return nil, err
	}
	return manager, election.announce(manager)
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
func addKeepers(process controllers.Process, config controllers.Config, tokenKey crypto.Signer) error {
	tokens := func(process controllers.Process) error { return addTokens(process, config, tokenKey) }
	for _, keeper := range []struct {
		name string
		add  func(controllers.Process) error
	}{
		{"aggregate", addAggregator},
		{"namespace", addNamespaces},
		{"serviceaccount", addAccounts},
		{"token", tokens},
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

// addTokens adds the controller that fills Secrets with tokens. Its cache has
// the metadata of these Secrets alone: there may be very many others.
func addTokens(process controllers.Process, config controllers.Config, key crypto.Signer) error {
	writer, recorder, err := process.Actor(tokenAccount)
	if err != nil {
		return err
	}
	cfg, err := process.As(tokenAccount)
	if err != nil {
		return err
	}
	secrets, err := cache.New(cfg, cache.Options{
		Scheme: process.Manager.GetScheme(), Mapper: process.Manager.GetRESTMapper(),
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultFieldSelector: fields.OneTermEqualSelector("type", string(token.Type)),
	})
	if err != nil {
		return fmt.Errorf("making the cache of Secrets for tokens: %w", err)
	}
	if err := process.Manager.Add(secrets); err != nil {
		return fmt.Errorf("adding the cache of Secrets for tokens: %w", err)
	}
	keys, err := accountkeys.NewKeys(key)
	if err != nil {
		return err
	}
	rootCA, err := config.OpenRoots()
	if err != nil {
		return err
	}
	return token.Add(process.Manager, token.Config{
		Client: writer, Secrets: secrets, Events: recorder, Roots: rootCA,
		Issue: func(secret types.NamespacedName, account string, uid types.UID) (string, error) {
			return keys.IssueLegacy(secret.Namespace, secret.Name, accountkeys.Ref{Name: account, UID: uid})
		},
	})
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
