// Package extension serves CustomResourceDefinitions and the resources they
// define, behind the API server of the built-in ones.
package extension

import (
	"context"
	"fmt"
	"time"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/apiserver/extension/lean"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

// patience bounds how long a stopping server waits for its start to complete.
const patience = 10 * time.Second

// Config has the parts and settings of the server.
type Config struct {
	// Generic is the configuration of the API server in front. Both servers use
	// the same admission, authorization and encryption.
	Generic *genericapiserver.Config
	// Informers are the informers of Generic.
	Informers informers.SharedInformerFactory
	// Backend configures where objects are stored.
	Backend *storagebackend.Config
	// Wrap changes how stores are opened. Those of uncached get no watch cache.
	Wrap func(next generic.RESTOptionsGetter, uncached map[schema.GroupResource]bool) generic.RESTOptionsGetter
	// Shared means that other servers may use the same store. A definition is
	// then served only after every server can have seen it.
	Shared bool
	// Services finds the conversion webhooks that are named by a Service.
	Services webhook.ServiceResolver
	// Credentials are those that the server sends to conversion webhooks.
	Credentials webhook.AuthenticationInfoResolverWrapper
	// Clock is the clock.
	Clock clock.PassiveClock
	// Lean are the names of the definitions that package lean serves instead of the library,
	// as long as they are simple.
	Lean []string
	// LeanOwned are the names in Lean of definitions whose objects only one program writes.
	LeanOwned []string
	// Objects, if not nil, are passed to clients of this process without encoding them.
	Objects *objectpass.Objects
	// LeanOpened, if not nil, is called with the rules of each of them.
	LeanOpened func(lean.Rules)
}

// Server is the API server of custom resources.
type Server struct {
	crds       *crdserver.CustomResourceDefinitions
	lean       *lean.Server
	serializer runtime.NegotiatedSerializer
}

// New builds the server. It gets its requests as the delegate of another
// server.
func New(cfg Config) (*Server, error) {
	front := *cfg.Generic
	front.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	front.MergedResourceConfig = crdserver.DefaultAPIResourceConfigSource()
	front.SkipOpenAPIInstallation = true // PublishOpenAPI publishes it
	front.RESTOptionsGetter = storedDefinitions(cfg)

	masters := 1
	if cfg.Shared {
		masters = 2 // more than one is all that matters
	}
	config := crdserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: front, SharedInformerFactory: cfg.Informers},
		ExtraConfig: crdserver.ExtraConfig{
			CRDRESTOptionsGetter: storedResources(cfg, cachedElsewhere(cfg)),
			MasterCount:          masters,
			ServiceResolver:      cfg.Services,
			AuthResolverWrapper:  cfg.Credentials,
		},
	}
	// Until all definitions are known, "not found" could be wrong.
	notFound := notfoundhandler.New(front.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	crds, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("making the API server of custom resources: %w", err)
	}
	s := &Server{crds: crds, serializer: front.Serializer}
	if s.lean, err = newLean(cfg, crds); err != nil {
		return nil, err
	}
	return s, crds.GenericAPIServer.AddPreShutdownHook("crd-informer-synced", s.awaitDefinitions)
}

// settle is how long the library lets no objects be created after a definition is
// established. Only other servers may not have seen it yet.
const settle = 2 * time.Second

// newLean builds the server of lean definitions in front of crds.
func newLean(cfg Config, crds *crdserver.CustomResourceDefinitions) (*lean.Server, error) {
	config := lean.Config{
		Names:       cfg.Lean,
		Owned:       cfg.LeanOwned,
		Definitions: crds.Informers.Apiextensions().V1().CustomResourceDefinitions(),
		Options:     storedResources(cfg, nil),
		OpenAPI:     cfg.Generic.OpenAPIV3Config,
		Opened:      cfg.LeanOpened,
		Objects:     cfg.Objects,
		Admission:   cfg.Generic.AdmissionControl,
		Authorizer:  crds.GenericAPIServer.Authorizer,
		Services:    cfg.Services,
		Credentials: cfg.Credentials,
		RequestTime: cfg.Generic.RequestTimeout,
		MinWatch:    time.Duration(cfg.Generic.MinRequestTimeout) * time.Second,
		MaxBody:     cfg.Generic.MaxRequestBodyBytes,
		Clock:       cfg.Clock,
	}
	if cfg.Shared {
		config.Settle = settle
	}
	server, err := lean.New(config)
	if err != nil {
		return nil, err
	}
	crds.GenericAPIServer.RegisterDestroyFunc(server.Destroy)
	return server, nil
}

// awaitDefinitions delays a stop until the definitions are known, but no longer
// than patience: the library ends the process if it is interrupted earlier.
func (s *Server) awaitDefinitions() error {
	for _, known := range s.crds.GenericAPIServer.MuxAndDiscoveryCompleteSignals() {
		select {
		case <-known:
		case <-time.After(patience):
		}
	}
	return nil
}

// StartInformers starts the informers of definitions, which otherwise start with the server.
func (s *Server) StartInformers(ctx context.Context) { s.crds.Informers.StartWithContext(ctx) }

// WaitForInformers waits until they are filled, or ctx ends.
func (s *Server) WaitForInformers(ctx context.Context) {
	s.crds.Informers.WaitForCacheSyncWithContext(ctx)
}

// Delegate returns the target for requests that the server in front does not
// handle.
func (s *Server) Delegate() genericapiserver.DelegationTarget {
	return withFormats{s.crds.GenericAPIServer, s.serializer, s.lean}
}
