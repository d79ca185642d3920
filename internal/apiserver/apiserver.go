// Package apiserver combines registries, admission, authentication and
// authorization into one Kubernetes API server.
package apiserver

import (
	"context"
	"crypto"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/apiserver/audit"
	"github.com/certplane/certplane/internal/apiserver/authn"
	"github.com/certplane/certplane/internal/apiserver/authz"
	"github.com/certplane/certplane/internal/apiserver/extension"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/generated/openapi"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/policies"
)

// shutdownTimeout bounds how long a stopping server waits for active requests.
const shutdownTimeout = 10 * time.Second

// Config has the parts and settings of an API server.
type Config struct {
	// Listener accepts the connections, without TLS.
	Listener net.Listener
	// ServingCert is the server's own certificate and key.
	ServingCert dynamiccertificates.CertKeyContentProvider
	// Clock is the clock.
	Clock clock.PassiveClock
	// Namespaces are created at start, in addition to those of every API server.
	Namespaces []string
	// ClientCAs sign the client certificates that are accepted.
	ClientCAs []dynamiccertificates.CAContentProvider
	// Tokens are the bearer tokens of the components in this process.
	Tokens map[string]*user.DefaultInfo
	// Authentication configures which other credentials are accepted.
	Authentication authn.Settings
	// ServiceAccountKey signs the tokens of service accounts.
	ServiceAccountKey crypto.Signer
	// Loopback is the configuration with which the server reaches itself with
	// all rights.
	Loopback *rest.Config
	// Inside, if not nil, is called with the handler of all requests as soon as
	// it can serve them, for requests that do not come over the Listener.
	Inside func(http.Handler)
	// Console is served next to the API; nil if it is off.
	Console *Console
	// Objects, if not nil, are passed to clients of Inside without encoding them.
	Objects *objectpass.Objects
	// Storage configures the etcd that stores the objects.
	Storage Storage
	// TLS configures the connections.
	TLS TLSConfig
	// API enables and disables versions and features.
	API APIConfig
	// Audit configures what is recorded about which requests.
	Audit audit.Config
	// Tracing configures where traces are sent.
	Tracing TracingConfig
	// Authorization configures which authorizers decide what users may do.
	Authorization authz.Settings
	// Admission enables and disables admission plugins.
	Admission admission.Config
	// DelegatedSigners are the signers for which the account that signs the
	// answers of webhooks may sign.
	DelegatedSigners []string
	// FrontEnds are the front ends of the process. Those with a path are served
	// on this port, and all of them are probed for readiness.
	FrontEnds []frontend.FrontEnd
	// KindsServed, if not nil, returns an error that names the own kinds that are not
	// served yet.
	KindsServed func() error
	// Policies decide about requests for certificates.
	Policies *policies.Policies
	// OnCreate has the controllers that approve and sign requests within the calls
	// that create them.
	OnCreate OnCreate
}

// Server is an API server that is ready to run.
type Server struct {
	generic    *genericapiserver.GenericAPIServer
	config     *genericapiserver.Config
	extensions *extension.Server
	informers  informers.SharedInformerFactory
	inside     func(http.Handler)
	console    *Console
	clientCAs  dynamiccertificates.CAContentProvider
	userCAs    dynamiccertificates.CAContentProvider
	authorizer *authz.Authorizer
	recording  *recording
	revoked    *revokedClients
	records    *inventory.Inventory
}

// ClientCAs returns all CAs whose client certificates are accepted.
func (s *Server) ClientCAs() dynamiccertificates.CAContentProvider { return s.clientCAs }

// UserCAs returns those of ClientCAs whose certificates authenticate users.
func (s *Server) UserCAs() dynamiccertificates.CAContentProvider { return s.userCAs }

// New builds the server. It does not access the store yet.
func New(cfg Config) (*Server, error) {
	if err := setFeatures(cfg); err != nil {
		return nil, err
	}
	a, err := newAssembly(cfg)
	if err != nil {
		return nil, err
	}
	a.recording.revoker = revoking.New(revoking.Config{
		Records: cfg.Storage.Records, Authorizer: a.generic.Authorization.Authorizer, Clock: cfg.Clock, CAs: knownCAs(a.client, a.who), Signers: knownSigners(a.client),
	})
	mapper, err := useAdmission(a.generic, cfg, a.client, a.informers, a.recording.revoker)
	if err != nil {
		return nil, err
	}
	open := cfg.Storage.open(wrapsOf(a.answering, a.recording))
	if err := useStorage(a.generic, cfg.Storage, open); err != nil {
		return nil, err
	}
	extensions, err := a.newExtensions(open)
	if err != nil {
		return nil, err
	}
	server, err := a.generic.Complete(a.informers).New("certplane", extensions.Delegate())
	if err != nil {
		return nil, fmt.Errorf("making the API server: %w", err)
	}
	server.ShutdownTimeout = shutdownTimeout
	if err := a.installGroups(server, resourceOf(mapper)); err != nil {
		return nil, err
	}
	if err := extensions.PublishGroups(server); err != nil {
		return nil, err
	}
	if err := a.installPaths(server); err != nil {
		return nil, err
	}
	return &Server{
		generic: server, config: a.generic, extensions: extensions, informers: a.informers, inside: cfg.Inside, console: cfg.Console,
		clientCAs: a.who.ClientCAs, userCAs: a.who.UserCAs, authorizer: a.allowed, recording: a.recording,
		revoked: a.revoked, records: cfg.Storage.Records,
	}, nil
}

// assembly contains the components that several parts of a server need.
type assembly struct {
	Config
	generic *genericapiserver.Config
	client  kubernetes.Interface
	// informers are shared; the authorizer reads RBAC objects and pods through them.
	informers informers.SharedInformerFactory
	allowed   *authz.Authorizer
	who       *authn.Authentication
	answering *onCreate
	recording *recording
	revoked   *revokedClients
}

// newAssembly makes the configuration of the generic server, including authentication and
// authorization.
func newAssembly(cfg Config) (*assembly, error) {
	client, err := kubernetes.NewForConfig(cfg.Loopback)
	if err != nil {
		return nil, fmt.Errorf("making the loopback client: %w", err)
	}
	generic, limits, err := newGenericConfig(cfg)
	if err != nil {
		return nil, err
	}
	a := &assembly{
		Config: cfg, generic: generic, client: client, informers: informers.NewSharedInformerFactory(client, 0), recording: newRecording(cfg),
		answering: &onCreate{OnCreate: cfg.OnCreate, generic: generic, space: cfg.Storage.Space, kinds: map[schema.GroupResource]answeredKind{}},
	}
	a.allowed, err = authz.New(authz.Config{Informers: a.informers, Client: client, Settings: cfg.Authorization, ServerID: generic.APIServerID})
	if err != nil {
		return nil, err
	}
	a.who, err = authn.New(authn.Config{
		Settings:          cfg.Authentication,
		Clock:             cfg.Clock,
		ServerID:          generic.APIServerID,
		ClientCAs:         cfg.ClientCAs,
		Tokens:            cfg.Tokens,
		ServiceAccountKey: cfg.ServiceAccountKey,
		Loopback:          cfg.Loopback,
	})
	if err != nil {
		return nil, err
	}
	useAuthentication(generic, a.who)
	if cfg.Storage.Records != nil {
		if a.revoked, err = newRevokedClients(cfg.Storage.Records.Revoked(), a.who.ClientCAs, limits.connections); err != nil {
			return nil, err
		}
	}
	useFilters(generic, cfg.Console, limits, a.revoked)
	return a, useAuthorization(generic, a.allowed)
}

// newExtensions returns the server of custom resources, whose stores are opened by open.
func (a *assembly) newExtensions(open openStores) (*extension.Server, error) {
	return extension.New(extension.Config{
		Generic:     a.generic,
		Informers:   a.informers,
		Backend:     newBackend(a.Storage),
		Wrap:        open,
		Shared:      a.Storage.Shared,
		Services:    services{a.client.CoreV1()},
		Credentials: webhookCredentials(a.generic.TracerProvider),
		Lean:        leanKinds(a.API.Lean),
		LeanOwned:   ownedByACMEServer(),
		LeanOpened:  a.answering.opened,
		Objects:     a.Objects,
		Clock:       a.Clock,
	})
}

// wrapsOf returns a function that wraps stores. Requests that are answered before they are
// stored are also recorded then.
func wrapsOf(answering *onCreate, recording *recording) func(schema.GroupResource, storage.Interface) storage.Interface {
	return func(resource schema.GroupResource, store storage.Interface) storage.Interface {
		return recording.wrapKeys(resource, answering.wrap(resource, recording.wrap(resource, store)))
	}
}

// installPaths adds the parts of the server other than the API groups: the paths of
// authentication and of front ends, the checks of /readyz, and the hooks that run after a
// start.
func (a *assembly) installPaths(server *genericapiserver.GenericAPIServer) error {
	if err := installAuthentication(server, a.Config, a.who); err != nil {
		return err
	}
	if err := addFrontEnds(server.Handler.NonGoRestfulMux, server.AddReadyzChecks, a.FrontEnds); err != nil {
		return err
	}
	if err := addSpaceCheck(server, a.Storage.Space); err != nil {
		return err
	}
	if err := addRevocationCheck(server, a.Storage.Records); err != nil {
		return err
	}
	if err := addPoliciesCheck(server, a.Policies); err != nil {
		return err
	}
	if err := addKindsCheck(server, a.KindsServed); err != nil {
		return err
	}
	return addBootstrap(server, a.client, a.Config)
}

// Decide returns whether a request of a user would be allowed, and which
// authorizer decides.
func (s *Server) Decide(ctx context.Context, request authorizer.Attributes) authz.Verdict {
	return s.authorizer.Decide(ctx, request)
}

// Run serves until ctx ends, and then lets active requests finish.
func (s *Server) Run(ctx context.Context) error {
	prepared := s.generic.PrepareRun()
	if err := s.extensions.PublishOpenAPI(s.generic, s.config); err != nil {
		return err
	}
	if s.inside != nil {
		s.inside(fromInside(s.generic.Handler, true))
	}
	if s.console != nil {
		s.console.Inside(fromInside(s.generic.Handler, false))
	}
	defer s.fillInformers(ctx)()
	if s.records != nil { // no client may get in whose certificate was revoked before the start
		if err := s.records.AwaitRevoked(ctx); err != nil {
			return err
		}
	}
	go s.revoked.run(ctx)
	if err := prepared.RunWithContext(ctx); err != nil {
		return fmt.Errorf("serving the API: %w", err)
	}
	return nil
}

// informersTime bounds how long a start waits for the informers.
const informersTime = 2 * time.Second

// fillInformers starts the informers of the server before the library does, and waits until
// they are filled: the steps of the library's own start look for that every 100 ms, one after
// another. If the store does not answer in time, they wait as they do without it. Like those
// steps, the informers do not end with ctx but with stop: the library ends the process if the
// definitions are not known at the end.
func (s *Server) fillInformers(ctx context.Context) (stop func()) {
	informing, stop := context.WithCancel(context.WithoutCancel(ctx))
	waiting, cancel := context.WithTimeout(ctx, informersTime)
	defer cancel()
	s.informers.StartWithContext(informing)
	s.extensions.StartInformers(informing)
	s.informers.WaitForCacheSyncWithContext(waiting)
	s.extensions.WaitForInformers(waiting)
	return stop
}

// setFeatures changes features of the library, for the whole process.
func setFeatures(cfg Config) error {
	if err := allowCBOR(cfg.API.cbor()); err != nil {
		return err
	}
	return dropSnapshots(cfg.Storage)
}

// allowCBOR removes the library's process-wide restriction on CBOR. The codecs
// of each server decide whether it supports CBOR.
func allowCBOR(wanted bool) error {
	if !wanted {
		return nil
	}
	return setFeature(genericfeatures.CBORServingAndStorage, true)
}

// dropSnapshots makes the library answer lists at older resource versions from
// the store. Otherwise it copies a part of each resource's index with every
// write, to keep every state of the last minutes in memory. Reading from a
// store in this process is just as fast.
func dropSnapshots(storage Storage) error {
	if storage.Connect == nil {
		return nil
	}
	return setFeature(genericfeatures.ListFromCacheSnapshot, false)
}

// setFeature enables or disables a feature of the library, for the whole
// process.
func setFeature(name featuregate.Feature, on bool) error {
	if utilfeature.DefaultFeatureGate.Enabled(name) == on {
		return nil
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(name): on}); err != nil {
		return fmt.Errorf("switching %s to %t: %w", name, on, err)
	}
	return nil
}

func newGenericConfig(cfg Config) (*genericapiserver.Config, *limiter, error) {
	namer := openapinamer.NewDefinitionNamer(api.Scheme, extension.Scheme())
	definitions := extension.OpenAPIDefinitions(openapi.GetOpenAPIDefinitions)
	generic := genericapiserver.NewConfig(api.NewCodecs(cfg.API.cbor()))
	generic.EffectiveVersion = newServedVersion()
	generic.FeatureGate = utilfeature.DefaultFeatureGate
	generic.SecureServing = &genericapiserver.SecureServingInfo{
		Listener: cfg.Listener,
		Cert:     cfg.ServingCert,
	}
	generic.LoopbackClientConfig = cfg.Loopback
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIConfig.Info.Title = "certplane"
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	generic.OpenAPIV3Config.Info.Title = "certplane"
	generic.OpenAPIConfig.GetDefinitionName = withoutHub(namer)
	generic.OpenAPIV3Config.GetDefinitionName = withoutHub(namer)
	generic.SkipOpenAPIInstallation = true // the extension server publishes the complete document
	generic.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	generic.LegacyAPIGroupPrefixes = sets.NewString(genericapiserver.DefaultLegacyAPIPrefix)
	generic.EnableProfiling = cfg.API.Profiling
	generic.ShutdownWatchTerminationGracePeriod = shutdownTimeout
	for _, apply := range []func(*genericapiserver.Config) error{cfg.TLS.applyTo, cfg.Tracing.applyTo} {
		if err := apply(generic); err != nil {
			return nil, nil, err
		}
	}
	limits, err := cfg.API.Limits.applyTo(generic)
	if err != nil {
		return nil, nil, err
	}
	generic.AuditPolicyRuleEvaluator, generic.AuditBackend, err = audit.New(cfg.Audit)
	return generic, limits, err
}
