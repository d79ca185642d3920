package extension

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Scheme returns the scheme with the kinds of apiextensions.k8s.io.
func Scheme() *runtime.Scheme { return crdserver.Scheme }

// OpenAPIDefinitions adds the types of apiextensions.k8s.io to the types of the server in
// front.
func OpenAPIDefinitions(front common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		definitions := crdopenapi.GetOpenAPIDefinitions(ref)
		maps.Copy(definitions, front(ref))
		return definitions
	}
}

// PublishOpenAPI makes front serve one document about the built-in kinds and
// the defined ones. In a Kubernetes cluster an aggregator merges the documents
// of two servers; here the parts that describe definitions write to the
// document of the server in front.
//
// config is that of front. It must be called once, after front is prepared and
// before it runs.
func (s *Server) PublishOpenAPI(front *genericapiserver.GenericAPIServer, config *genericapiserver.Config) error {
	crds, mux := s.crds.GenericAPIServer, front.Handler.NonGoRestfulMux
	services := joined(front, crds)
	crds.OpenAPIVersionedService, crds.StaticOpenAPISpec = publishV2(services, config.OpenAPIConfig, mux)
	return s.publishDefined(publishV3(services, config.OpenAPIV3Config, mux))
}

// publishV2 is the library's InstallV2, but creates the document when a client
// first requests it. The document takes 10 MB that most servers never need,
// because clients have requested the third version since Kubernetes 1.27.
func publishV2(services *restful.Container, config *common.Config, mux *mux.PathRecorderMux) (*handler.OpenAPIService, *spec.Swagger) {
	static := &spec.Swagger{}
	document := handler.NewOpenAPIService(static)
	document.RegisterOpenAPIVersionedService("/openapi/v2", prepared{mux, sync.OnceFunc(func() {
		built, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services.RegisteredWebServices()), config)
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("describing the API in OpenAPI v2: %w", err))
			return
		}
		built.Definitions = handler.PruneDefaults(built.Definitions)
		*static = *built
	})})
	return document, static
}

// publishV3 is the library's InstallV3, but builds the document of each group when a
// client first requests one.
func publishV3(services *restful.Container, config *common.OpenAPIV3Config, mux *mux.PathRecorderMux) *handler3.OpenAPIService {
	documents := handler3.NewOpenAPIService()
	utilruntime.Must(documents.RegisterOpenAPIV3VersionedService("/openapi/v3", mux)) // it never fails
	for _, service := range services.RegisteredWebServices() {
		path := strings.TrimPrefix(service.RootPath(), "/")
		documents.UpdateGroupVersionLazy(path, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
			document, err := builder3.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices([]*restful.WebService{service}), ownExtensions(config))
			if err != nil {
				return nil, "", fmt.Errorf("describing %s in OpenAPI v3: %w", path, err)
			}
			keepOwnKinds(document, path)
			return document, path, nil // it never changes
		})))
	}
	return documents
}

// ownExtensions returns the configuration for one document with a private copy of the
// extensions. The library writes to the extensions of the definitions, which all documents
// share: it builds all documents before it serves any. Here some documents are built while
// others are read.
func ownExtensions(config *common.OpenAPIV3Config) *common.OpenAPIV3Config {
	own := *config
	own.Definitions = maps.Clone(config.Definitions)
	for name, definition := range own.Definitions {
		definition.Schema.Extensions = maps.Clone(definition.Schema.Extensions)
		own.Definitions[name] = definition
	}
	return &own
}

// keepOwnKinds limits the kinds in the document of the group at a path to the group's own
// kinds and those of the core group. Every group has WatchEvent and DeleteOptions, whose
// schemas would otherwise list all groups in each document.
func keepOwnKinds(document *spec3.OpenAPI, path string) {
	const kinds = "x-kubernetes-group-version-kind"
	own, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/"))
	if err != nil || document.Components == nil || !strings.HasPrefix(path, "api") {
		return
	}
	elsewhere := func(kind any) bool {
		of, _ := kind.(map[string]any)
		gv := schema.GroupVersion{}
		gv.Group, _ = of["group"].(string)
		gv.Version, _ = of["version"].(string)
		return gv != own && gv != corev1.SchemeGroupVersion
	}
	everywhere := func(kind any) bool {
		of, _ := kind.(map[string]any)
		return of["kind"] == "WatchEvent" || of["kind"] == "DeleteOptions"
	}
	for _, s := range document.Components.Schemas {
		if all, ok := s.Extensions[kinds].([]any); ok && slices.ContainsFunc(all, everywhere) {
			s.Extensions[kinds] = slices.DeleteFunc(slices.Clone(all), elsewhere)
		}
	}
}

// prepared registers handlers that need preparation before they serve.
type prepared struct {
	mux     *mux.PathRecorderMux
	prepare func()
}

// Handle implements common.PathHandler.
func (p prepared) Handle(path string, next http.Handler) {
	p.mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.prepare()
		next.ServeHTTP(w, r)
	}))
}

// joined returns the web services of all servers; of those at the same path the
// first one is used, as in serving.
func joined(servers ...*genericapiserver.GenericAPIServer) *restful.Container {
	all, seen := restful.NewContainer(), map[string]bool{}
	for _, server := range servers {
		for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
			if !seen[service.RootPath()] {
				seen[service.RootPath()] = true
				all.Add(service)
			}
		}
	}
	return all
}
