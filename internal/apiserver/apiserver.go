// Package apiserver joins registries, admission, authentication and
// authorization into one Kubernetes API server.
package apiserver

import (
	"context"
	"crypto"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/apiserver/extension"
	"github.com/certplane/certplane/internal/audit"
	"github.com/certplane/certplane/internal/authn"
	"github.com/certplane/certplane/internal/authz"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/generated/openapi"
)

// shutdownTimeout bounds how long a stopping server waits for requests that
// are under way.
const shutdownTimeout = 10 * time.Second

// Config is what an API server is made of.
type Config struct {
	// Listener accepts the connections; TLS comes on top of it.
	Listener net.Listener
	// ServingCert is the server's own certificate and key.
	ServingCert dynamiccertificates.CertKeyContentProvider
	// Namespaces are there from the start, besides those of every API server.
	Namespaces []string
	// ClientCAs sign the client certificates that are honoured.
	ClientCAs []dynamiccertificates.CAContentProvider
	// Tokens are the bearer tokens of the parts inside this process.
	Tokens map[string]*user.DefaultInfo
	// Authentication says which other credentials are honoured.
	Authentication authn.Settings
	// ServiceAccountKey signs the tokens of service accounts.
	ServiceAccountKey crypto.Signer
	// Loopback is how the server reaches itself with all rights.
	Loopback *rest.Config
	// Inside, if there is one, gets the handler of all requests as soon as it
	// can take any, for those that do not come over the Listener.
	Inside func(http.Handler)
	// Storage says which etcd holds the objects.
	Storage Storage
	// TLS rules the connections.
	TLS TLSConfig
	// API switches versions and features.
	API APIConfig
	// Audit says what is recorded of which request.
	Audit audit.Config
	// Tracing says where traces go.
	Tracing TracingConfig
	// Authorization chooses who decides what users may do.
	Authorization authz.Settings
	// Admission switches admission plugins.
	Admission admission.Config
	// DelegatedSigners are the signers for which the account that signs with
	// what webhooks answer may sign.
	DelegatedSigners []string
	// FrontEnds are what the process serves: those with a path are on this port, and
	// all are asked whether the server is ready.
	FrontEnds []frontend.FrontEnd
}

// Server is an API server that is ready to run.
type Server struct {
	generic    *genericapiserver.GenericAPIServer
	config     *genericapiserver.Config
	extensions *extension.Server
	inside     func(http.Handler)
	clientCAs  dynamiccertificates.CAContentProvider
	authorizer *authz.Authorizer
}

// ClientCAs are all CAs whose client certificates are honoured.
func (s *Server) ClientCAs() dynamiccertificates.CAContentProvider { return s.clientCAs }

// New builds the server. It does not touch the store yet.
func New(cfg Config) (*Server, error) {
	if err := allowCBOR(cfg.API.cbor()); err != nil {
		return nil, err
	}
	if err := dropSnapshots(cfg.Storage); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg.Loopback)
	if err != nil {
		return nil, fmt.Errorf("making the loopback client: %w", err)
	}
	generic, err := newGenericConfig(cfg)
	if err != nil {
		return nil, err
	}
	// The authorizer reads RBAC objects and pods through these informers.
	shared := informers.NewSharedInformerFactory(client, 0)
	allowed, err := authz.New(authz.Config{Informers: shared, Client: client, Settings: cfg.Authorization, ServerID: generic.APIServerID})
	if err != nil {
		return nil, err
	}
	who, err := authn.New(authn.Config{
		Settings:          cfg.Authentication,
		ServerID:          generic.APIServerID,
		ClientCAs:         cfg.ClientCAs,
		Tokens:            cfg.Tokens,
		ServiceAccountKey: cfg.ServiceAccountKey,
		Loopback:          cfg.Loopback,
	})
	if err != nil {
		return nil, err
	}
	useAuthentication(generic, who)
	if err := useAuthorization(generic, allowed); err != nil {
		return nil, err
	}
	mapper, err := useAdmission(generic, cfg, client, shared)
	if err != nil {
		return nil, err
	}
	open := cfg.Storage.open()
	if err := useStorage(generic, cfg.Storage, open); err != nil {
		return nil, err
	}

	extensions, err := extension.New(extension.Config{
		Generic:     generic,
		Informers:   shared,
		Backend:     newBackend(cfg.Storage),
		Wrap:        open,
		Shared:      cfg.Storage.Shared,
		Services:    services{client.CoreV1()},
		Credentials: webhookCredentials(generic.TracerProvider),
	})
	if err != nil {
		return nil, err
	}
	server, err := generic.Complete(shared).New("certplane", extensions.Delegate())
	if err != nil {
		return nil, fmt.Errorf("making the API server: %w", err)
	}
	server.ShutdownTimeout = shutdownTimeout
	identities := newIdentities(cfg.Authentication, who, client)
	if err := installGroups(server, generic, cfg.API, resourceOf(mapper), identities); err != nil {
		return nil, err
	}
	if err := extensions.PublishGroups(server); err != nil {
		return nil, err
	}
	if err := installAuthentication(server, cfg, who); err != nil {
		return nil, err
	}
	if err := hang(server.Handler.NonGoRestfulMux, server.AddReadyzChecks, cfg.FrontEnds); err != nil {
		return nil, err
	}
	if err := addSpaceCheck(server, cfg.Storage.Space); err != nil {
		return nil, err
	}
	if err := addBootstrap(server, client, cfg); err != nil {
		return nil, err
	}
	return &Server{generic: server, config: generic, extensions: extensions, inside: cfg.Inside, clientCAs: who.ClientCAs, authorizer: allowed}, nil
}

// Decide says whether a request of a user would be allowed, and who decides.
func (s *Server) Decide(ctx context.Context, request authorizer.Attributes) authz.Verdict {
	return s.authorizer.Decide(ctx, request)
}

// Run serves until ctx ends, then lets requests that are under way finish.
func (s *Server) Run(ctx context.Context) error {
	prepared := s.generic.PrepareRun()
	s.extensions.PublishOpenAPI(s.generic, s.config)
	if s.inside != nil {
		s.inside(fromInside(s.generic.Handler))
	}
	if err := prepared.RunWithContext(ctx); err != nil {
		return fmt.Errorf("serving the API: %w", err)
	}
	return nil
}

// allowCBOR lifts the library's process-wide lock on CBOR. Whether a server
// speaks it is decided by the server's own codecs.
func allowCBOR(wanted bool) error {
	if !wanted {
		return nil
	}
	return setFeature(genericfeatures.CBORServingAndStorage, true)
}

// dropSnapshots has the library answer lists of the past from the store. Else
// it copies a part of each resource's index with every write, to have what was
// there at each moment of the last minutes in memory. A store in this process
// has it as near.
func dropSnapshots(storage Storage) error {
	if storage.Connect == nil {
		return nil
	}
	return setFeature(genericfeatures.ListFromCacheSnapshot, false)
}

// setFeature switches a feature of the library, for the whole process.
func setFeature(name featuregate.Feature, on bool) error {
	if utilfeature.DefaultFeatureGate.Enabled(name) == on {
		return nil
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(name): on}); err != nil {
		return fmt.Errorf("switching %s to %t: %w", name, on, err)
	}
	return nil
}

func newGenericConfig(cfg Config) (*genericapiserver.Config, error) {
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
	generic.SkipOpenAPIInstallation = true // the extensions' server publishes the whole
	generic.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	generic.LegacyAPIGroupPrefixes = sets.NewString(genericapiserver.DefaultLegacyAPIPrefix)
	generic.EnableProfiling = cfg.API.Profiling
	generic.ShutdownWatchTerminationGracePeriod = shutdownTimeout
	for _, apply := range []func(*genericapiserver.Config) error{cfg.TLS.applyTo, cfg.API.Limits.applyTo, cfg.Tracing.applyTo} {
		if err := apply(generic); err != nil {
			return nil, err
		}
	}
	var err error
	generic.AuditPolicyRuleEvaluator, generic.AuditBackend, err = audit.New(cfg.Audit)
	return generic, err
}
