// Package core serves the core API group.
package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the API group.
type Options struct {
	// RESTOptions configures where objects are stored.
	RESTOptions generic.RESTOptionsGetter
	// ServiceAccountToken is the subresource serviceaccounts/token; if nil, it
	// is not served.
	ServiceAccountToken rest.Storage
	// Events is the resource events, which another group also serves.
	Events rest.Storage
}

// NewAPIGroup returns the resources under /api/v1.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	resources := map[string]rest.Storage{}
	for _, kind := range kinds() {
		endpoints, err := kind.Open(opts.RESTOptions)
		if err != nil {
			return genericapiserver.APIGroupInfo{}, err
		}
		maps.Copy(resources, endpoints.Storage)
	}
	if opts.Events != nil {
		resources["events"] = opts.Events
	}
	if opts.ServiceAccountToken != nil {
		resources["serviceaccounts/token"] = opts.ServiceAccountToken
	}

	group := kind.NewGroup(corev1.GroupName)
	group.VersionedResourcesStorageMap[corev1.SchemeGroupVersion.Version] = resources
	return group, nil
}

// opener is a kind.Kind of any type.
type opener interface {
	Open(generic.RESTOptionsGetter) (kind.Endpoints, error)
}

// kinds returns the served kinds except Event, which another group also serves.
func kinds() []opener {
	return []opener{configMaps(), namespaces(), nodes(), pods(), secrets(), serviceAccounts(), services()}
}
