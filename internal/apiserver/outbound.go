package apiserver

import (
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// noServices answers for webhooks that are configured by a Service.
type noServices struct{}

var _ webhook.ServiceResolver = noServices{}

// ResolveEndpoint tells what to do instead.
func (noServices) ResolveEndpoint(namespace, name string, _ int32) (*url.URL, error) {
	return nil, fmt.Errorf("cannot reach service %q in namespace %q: this server has no Services; set clientConfig.url instead of clientConfig.service", name, namespace)
}

// webhookCredentials shows webhooks no credentials, whatever their address:
// they know the server by nothing but its coming.
func webhookCredentials(tracing trace.TracerProvider) webhook.AuthenticationInfoResolverWrapper {
	return webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, &rest.Config{}, tracing)
}
