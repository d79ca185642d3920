package kind

import (
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/api"
)

// NewGroup returns an API group without resources. The server that installs it
// decides which formats it supports.
func NewGroup(name string) genericapiserver.APIGroupInfo {
	return genericapiserver.NewDefaultAPIGroupInfo(name, api.Scheme, api.ParameterCodec, api.NewCodecs(false))
}
