package server

import (
	"context"
	"crypto"
	"crypto/x509"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/apiserver"
	accountkeys "github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
	"github.com/certplane/certplane/internal/controller/aggregate"
	"github.com/certplane/certplane/internal/controller/approvalseal"
	"github.com/certplane/certplane/internal/controller/frontproxy"
	"github.com/certplane/certplane/internal/controller/garbage"
	"github.com/certplane/certplane/internal/controller/namespace"
	"github.com/certplane/certplane/internal/controller/serviceaccount"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/token"
	"github.com/certplane/certplane/internal/controller/typecheck"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// clientCAs are the CAs whose client certificates the API accepts, and how to
// add more.
type clientCAs struct {
	honoured signer.Honoured
	// users are those whose certificates authenticate users.
	users  signer.Honoured
	honour func(*pki.Authority)
}

// controllers contains the dependencies of the controllers.
type controllers struct {
	ids         identities
	credentials *credentials
	settings    controllermanager.Settings
	// admitsTrustBundles means that admission checks the authors of TrustBundles.
	admitsTrustBundles bool
	clients            clientCAs
	responders         controllermanager.Responders
	policies           *policies.Policies
	lease              *controllermanager.Lease
	onCreate           *issueoncreate.Hub
	acme               controllermanager.ACMEServer
	lists              lists
}

// newManager builds all controllers. The returned manager runs them, only while it holds
// the lease if there is one.
func (c controllers) newManager() (ctrl.Manager, error) {
	process, err := controllermanager.NewProcess(controllermanager.Options{
		Namespace: rights.ServeNamespace, As: c.ids.asAccount, Metrics: legacyregistry.Registerer(), Mapper: newMapper,
		OnCreate: c.onCreate, Lease: c.lease, Announcement: "The controllers work on this server from now on",
	})
	if err != nil {
		return nil, err
	}
	ca, err := openGenerated(process, c.credentials.clientCA.issuing)
	if err != nil {
		return nil, err
	}
	proxy, lists := &frontproxy.Client{}, c.lists
	lists.own = c.credentials.listCAs(ca)
	config := controllermanager.Config{
		AdmitsTrustBundles: c.admitsTrustBundles,
		Settings:           c.settings, CA: ca, RootCA: roots.Static(c.credentials.servingCA.chain...),
		Honoured: c.clients.honoured, Honour: c.clients.honour, Responders: c.responders,
		Keepers:    keepers(c.credentials.serviceAccountKey, roots.Roots(c.clients.users), proxy, c.policies.Seals(), lists),
		FrontProxy: proxy.Certificate, Policies: c.policies, ACMEServer: c.acme, RecordOwn: c.credentials.recordOwn,
		Status: c.lists.settings.status(func(ca *x509.Certificate) string { return c.lists.records.Lists.URLOf(ca, time.Now()) }),
	}
	if lists.records != nil {
		config.Revoked, config.Lists, config.Records = lists.records, lists.records.Lists, records{lists.records}
	}
	return process.Manager, controllermanager.Add(process, config)
}

// newOnCreate returns where the API server finds the controllers that approve and
// sign requests while they are created; nil if that is off.
func newOnCreate(api apiserver.APIConfig) *issueoncreate.Hub {
	if !api.IssueOnCreate {
		return nil
	}
	return &issueoncreate.Hub{}
}

// openGenerated opens the CA of the signers that have no configured CA.
func openGenerated(process controllermanager.Process, pair keyPair) (sign.CA, error) {
	settings := keystore.Settings{CertFile: pair.certFile, KeyFile: pair.keyFile}
	ca, err := keystore.Open(context.Background(), settings, keystore.Options{Name: "generated", Metrics: process.Metrics})
	if err != nil {
		return nil, err
	}
	return ca, process.Follow(ca)
}

// keepers are the controllers that keep the API in order. In a cluster, other
// programs do this.
func keepers(tokenKey crypto.Signer, users roots.Roots, proxy *frontproxy.Client, seals *policies.Seals, lists lists) []controllermanager.Part {
	tokens := func(a controllermanager.Actor, config controllermanager.Config) error {
		return addTokens(a, config, tokenKey)
	}
	frontProxy := func(a controllermanager.Actor, config controllermanager.Config) error {
		return addFrontProxy(a, config, users, lists.records.Revoked(), proxy)
	}
	approvalKeys := func(a controllermanager.Actor, _ controllermanager.Config) error {
		return addApprovalKeys(a, seals)
	}
	return []controllermanager.Part{
		{Controller: rights.Aggregate, Add: addAggregator},
		{Controller: rights.Namespaces, Add: addNamespaces},
		{Controller: rights.ServiceAccounts, Add: addAccounts},
		{Controller: rights.Tokens, Add: tokens},
		{Controller: rights.Garbage, Add: addGarbage},
		{Controller: rights.TypeCheck, Add: addTypeCheck},
		{Controller: rights.InstallCRDs, Add: addDefinitions},
		{Controller: rights.FrontProxy, Add: frontProxy},
		{Controller: rights.PublishApprovalKeys, Add: approvalKeys},
		{Controller: rights.PublishLists, Add: lists.add},
	}
}

func addAggregator(a controllermanager.Actor, _ controllermanager.Config) error {
	return aggregate.Add(a.Manager, aggregate.Config{Client: a.Client})
}

func addNamespaces(a controllermanager.Actor, _ controllermanager.Config) error {
	kinds, objects, err := anyKind(a.API)
	if err != nil {
		return err
	}
	return namespace.Add(a.Manager, namespace.Config{
		Client: a.Client, Discover: kinds.ServerPreferredNamespacedResourcesWithContext, Objects: objects,
	})
}

func addAccounts(a controllermanager.Actor, _ controllermanager.Config) error {
	accounts, err := a.CacheOf(serviceaccount.Name)
	if err != nil {
		return err
	}
	return serviceaccount.Add(a.Manager, serviceaccount.Config{Client: a.Client, Accounts: accounts})
}

// addTokens adds the controller that fills Secrets with tokens. Its cache holds only the
// metadata of these Secrets, because there may be very many other Secrets.
func addTokens(a controllermanager.Actor, config controllermanager.Config, key crypto.Signer) error {
	secrets, err := a.NewCache("Secrets for tokens", cache.Options{
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultFieldSelector: fields.OneTermEqualSelector("type", string(token.Type)),
	})
	if err != nil {
		return err
	}
	keys, err := accountkeys.NewKeys(key)
	if err != nil {
		return err
	}
	rootCA, err := config.OpenRoots()
	if err != nil {
		return err
	}
	return token.Add(a.Manager, token.Config{
		Client: a.Client, Secrets: secrets, Events: a.Events, Roots: rootCA,
		Issue: func(secret types.NamespacedName, account string, uid types.UID) (string, error) {
			return keys.IssueLegacy(secret.Namespace, secret.Name, accountkeys.Ref{Name: account, UID: uid})
		},
	})
}

// addFrontProxy adds the keeper of proxy's certificate, with a separate cache for its Secret
// and its ConfigMap.
func addFrontProxy(a controllermanager.Actor, config controllermanager.Config, users roots.Roots, revoked *revocation.Index, proxy *frontproxy.Client) error {
	changes, err := a.NewCache("the front proxy's objects", frontproxy.Watched())
	if err != nil {
		return err
	}
	issuing, err := controllermanager.Issuing(a.Metrics, config.RecordOwn)
	if err != nil {
		return err
	}
	return frontproxy.Add(a.Manager, frontproxy.Config{
		Client: a.Client, Changes: changes, ClientCAs: users, Issuing: issuing, Revoked: revoked, Use: proxy,
	})
}

// addApprovalKeys adds what publishes the keys that verify approvals.
func addApprovalKeys(a controllermanager.Actor, seals *policies.Seals) error {
	changes, err := a.NewCache("the keys that verify approvals", approvalseal.WatchedKeys(rights.ServeNamespace))
	if err != nil {
		return err
	}
	return approvalseal.Publish(a.Manager, approvalseal.PublishConfig{Client: a.Client, Changes: changes, Namespace: rights.ServeNamespace, Seals: seals})
}

func addGarbage(a controllermanager.Actor, _ controllermanager.Config) error {
	kinds, objects, err := anyKind(a.API)
	if err != nil {
		return err
	}
	return garbage.Add(a.Manager, garbage.Config{Discovery: kinds, Objects: objects, Events: a.Events})
}

// addTypeCheck adds the controller with a separate cache: no other controller reads
// policies, so the shared cache needs no right to do so.
func addTypeCheck(a controllermanager.Actor, _ controllermanager.Config) error {
	policies, err := a.NewCache("policies", cache.Options{})
	if err != nil {
		return err
	}
	schemas, err := discovery.NewDiscoveryClientForConfig(a.API)
	if err != nil {
		return err
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: schemas},
		RestMapper:     a.Manager.GetRESTMapper(),
	}
	return typecheck.Add(a.Manager, typecheck.Config{Client: a.Client, Policies: policies, Check: checker.Check})
}

// anyKind returns clients for all kinds.
func anyKind(api *rest.Config) (*discovery.DiscoveryClient, metadata.Interface, error) {
	kinds, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(api)
	return kinds, objects, err
}
