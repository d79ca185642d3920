package extension

import (
	"mime"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/apiserver/extension/lean"
)

// formats are the formats of custom resources.
var formats = []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML}

// withFormats refuses custom resources in protobuf, which they do not have. The
// library panics on them: it has no strict decoder for that format.
type withFormats struct {
	genericapiserver.DelegationTarget
	serializer runtime.NegotiatedSerializer
	// lean handles the requests that are not refused before the library does.
	lean *lean.Server
}

// UnprotectedHandler implements genericapiserver.DelegationTarget.
func (t withFormats) UnprotectedHandler() http.Handler {
	next := t.lean.Handler(t.DelegationTarget.UnprotectedHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if writesResource(r) && isProtobuf(r.Header.Get("Content-Type")) {
			responsewriters.ErrorNegotiated(negotiation.NewUnsupportedMediaTypeError(formats), t.serializer, schema.GroupVersion{}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writesResource reports whether a request has a custom resource in its body.
// Definitions of resources exist in all formats.
func writesResource(r *http.Request) bool {
	definitions := strings.HasPrefix(r.URL.Path, "/apis/"+apiextensionsv1.GroupName+"/")
	return (r.Method == http.MethodPost || r.Method == http.MethodPut) && !definitions
}

func isProtobuf(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == runtime.ContentTypeProtobuf
}
