// Package extension serves CustomResourceDefinitions and the resources they
// define, behind the API server of the built-in ones.
package extension

import (
	"fmt"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
)

// Config is what the server is made of.
type Config struct {
	// Generic is the configuration of the API server in front: admission,
	// authorization and encryption are the same in both.
	Generic *genericapiserver.Config
	// Informers belong to Generic.
	Informers informers.SharedInformerFactory
	// Backend is where objects are stored.
	Backend *storagebackend.Config
	// Wrap changes how stores are opened.
	Wrap func(generic.RESTOptionsGetter) generic.RESTOptionsGetter
	// Shared says that other servers may use the same store. A definition is
	// then served only after every server can know of it.
	Shared bool
	// Services finds the conversion webhooks that are named by a Service.
	Services webhook.ServiceResolver
	// Credentials are what the server shows to conversion webhooks.
	Credentials webhook.AuthenticationInfoResolverWrapper
}

// Server is the API server of custom resources.
type Server struct {
	crds *crdserver.CustomResourceDefinitions
}

// New builds the server. Requests reach it as the delegate of another one.
func New(cfg Config) (*Server, error) {
	front := *cfg.Generic
	front.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	front.MergedResourceConfig = crdserver.DefaultAPIResourceConfigSource()
	front.SkipOpenAPIInstallation = true // PublishOpenAPI does it
	front.RESTOptionsGetter = storedDefinitions(cfg)

	masters := 1
	if cfg.Shared {
		masters = 2 // all that matters is that there can be more than one
	}
	config := crdserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: front, SharedInformerFactory: cfg.Informers},
		ExtraConfig: crdserver.ExtraConfig{
			CRDRESTOptionsGetter: storedResources(cfg),
			MasterCount:          masters,
			ServiceResolver:      cfg.Services,
			AuthResolverWrapper:  cfg.Credentials,
		},
	}
	// Until all definitions are known, "not found" would be a lie.
	notFound := notfoundhandler.New(front.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	crds, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("making the API server of custom resources: %w", err)
	}
	return &Server{crds: crds}, nil
}

// Delegate takes the requests that the server in front has no answer to.
func (s *Server) Delegate() genericapiserver.DelegationTarget {
	return s.crds.GenericAPIServer
}
