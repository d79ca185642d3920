package apiserver

import (
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// webhookCredentials shows webhooks no credentials, whatever their address:
// they know the server by nothing but its coming.
func webhookCredentials(tracing trace.TracerProvider) webhook.AuthenticationInfoResolverWrapper {
	return webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, &rest.Config{}, tracing)
}
