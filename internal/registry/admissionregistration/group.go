// Package admissionregistration serves admissionregistration.k8s.io: the
// webhooks and policies that have a say in what is stored.
package admissionregistration

import (
	"maps"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/registry/kind"
)

// Options is what the API group is made of.
type Options struct {
	// RESTOptions says where objects are stored.
	RESTOptions generic.RESTOptionsGetter
	// Authorizer is asked whether the author of a policy may read its
	// parameters.
	Authorizer authorizer.Authorizer
	// ResourceOf finds the resource of a policy's parameters.
	ResourceOf ResourceOf
}

// NewAPIGroup builds the six resources.
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
