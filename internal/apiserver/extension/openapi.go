package extension

import (
	"maps"

	restful "github.com/emicklei/go-restful/v3"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/common"
)

// Scheme knows the kinds of apiextensions.k8s.io.
func Scheme() *runtime.Scheme { return crdserver.Scheme }

// OpenAPIDefinitions adds the types of apiextensions.k8s.io to those of the
// server in front.
func OpenAPIDefinitions(front common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		definitions := crdopenapi.GetOpenAPIDefinitions(ref)
		maps.Copy(definitions, front(ref))
		return definitions
	}
}

// PublishOpenAPI makes front serve one document about the built-in kinds and
// the defined ones. In a Kubernetes cluster an aggregator joins the documents
// of two servers; here the controllers that describe definitions are given
// the document of the server in front to write to.
//
// config is front's. It must be called once, after front is prepared and before
// it runs.
func (s *Server) PublishOpenAPI(front *genericapiserver.GenericAPIServer, config *genericapiserver.Config) {
	crds, mux := s.crds.GenericAPIServer, front.Handler.NonGoRestfulMux
	services := joined(front, crds)
	crds.OpenAPIVersionedService, crds.StaticOpenAPISpec = routes.OpenAPI{Config: config.OpenAPIConfig}.InstallV2(services, mux)
	crds.OpenAPIV3VersionedService = routes.OpenAPI{V3Config: config.OpenAPIV3Config}.InstallV3(services, mux)
}

// joined lists the web services of all servers; of those at the same path
// the first wins, as it does in serving.
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
