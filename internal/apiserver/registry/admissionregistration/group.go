// Package admissionregistration serves admissionregistration.k8s.io: the
// webhooks and policies that take part in admission.
package admissionregistration

import (
	"maps"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the API group.
type Options struct {
	// RESTOptions configures where objects are stored.
	RESTOptions generic.RESTOptionsGetter
	// Authorizer decides whether the author of a policy may read its
	// parameters.
	Authorizer authorizer.Authorizer
	// ResourceOf finds the resource of a policy's parameters.
	ResourceOf ResourceOf
}

// NewAPIGroup returns the six resources.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	stores, storage := map[string]*registry.Store{}, map[string]rest.Storage{}
	params := &paramReaders{authorizer: opts.Authorizer, resourceOf: opts.ResourceOf}
	for _, open := range []func(generic.RESTOptionsGetter) (kind.Endpoints, error){
		mutatingPolicies(params).Open,
		mutatingBindings(params).Open,
		mutatingWebhooks().Open,
		validatingPolicies(params).Open,
		validatingBindings(params).Open,
		validatingWebhooks().Open,
	} {
		endpoints, err := open(opts.RESTOptions)
		if err != nil {
			return genericapiserver.APIGroupInfo{}, err
		}
		stores[endpoints.Store.DefaultQualifiedResource.Resource] = endpoints.Store
		maps.Copy(storage, endpoints.Storage)
	}
	params.mutating, params.validating = stores["mutatingadmissionpolicies"], stores["validatingadmissionpolicies"]

	group := kind.NewGroup(v1.GroupName)
	group.VersionedResourcesStorageMap[v1.SchemeGroupVersion.Version] = storage
	return group, nil
}
