// Package admissionregistration serves admissionregistration.k8s.io: the
// webhooks and policies that have a say in what is stored.
package admissionregistration

import (
	"fmt"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/api"
)

// Options is what the API group is made of.
type Options struct {
	// RESTOptions says where objects are stored.
	RESTOptions generic.RESTOptionsGetter
	// Codecs are the wire formats.
	Codecs serializer.CodecFactory
	// Authorizer is asked whether the author of a policy may read its
	// parameters.
	Authorizer authorizer.Authorizer
	// ResourceOf finds the resource of a policy's parameters.
	ResourceOf ResourceOf
}

// NewAPIGroup builds the six resources.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	storage := map[string]rest.Storage{}
	params := &paramReaders{authorizer: opts.Authorizer, resourceOf: opts.ResourceOf}
	for _, k := range kinds() {
		store, err := newStore(k, opts.RESTOptions, params)
		if err != nil {
			return genericapiserver.APIGroupInfo{}, fmt.Errorf("opening the store of %s: %w", k.plural, err)
		}
		storage[k.plural] = resource{store}
		if k.plural == "validatingadmissionpolicies" {
			storage[k.plural+"/status"] = newStatus(store)
		}
		params.add(k.plural, store)
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(v1.GroupName, api.Scheme, api.ParameterCodec, opts.Codecs)
	group.VersionedResourcesStorageMap[v1.SchemeGroupVersion.Version] = storage
	return group, nil
}

// kind is what sets one of the six apart.
type kind struct {
	plural, singular   string
	newObject, newList func() runtime.Object
	// spec returns what the author of an object says; a change is a new
	// generation.
	spec    func(runtime.Object) any
	columns columns
}

func kinds() []kind {
	return []kind{
		{
			plural: "mutatingadmissionpolicies", singular: "mutatingadmissionpolicy",
			newObject: newOf[v1.MutatingAdmissionPolicy], newList: newOf[v1.MutatingAdmissionPolicyList],
			spec: func(obj runtime.Object) any { return obj.(*v1.MutatingAdmissionPolicy).Spec }, columns: mutatingPolicyColumns,
		},
		{
			plural: "mutatingadmissionpolicybindings", singular: "mutatingadmissionpolicybinding",
			newObject: newOf[v1.MutatingAdmissionPolicyBinding], newList: newOf[v1.MutatingAdmissionPolicyBindingList],
			spec: func(obj runtime.Object) any { return obj.(*v1.MutatingAdmissionPolicyBinding).Spec }, columns: bindingColumns,
		},
		{
			plural: "mutatingwebhookconfigurations", singular: "mutatingwebhookconfiguration",
			newObject: newOf[v1.MutatingWebhookConfiguration], newList: newOf[v1.MutatingWebhookConfigurationList],
			spec: func(obj runtime.Object) any { return obj.(*v1.MutatingWebhookConfiguration).Webhooks }, columns: webhookColumns,
		},
		{
			plural: "validatingadmissionpolicies", singular: "validatingadmissionpolicy",
			newObject: newOf[v1.ValidatingAdmissionPolicy], newList: newOf[v1.ValidatingAdmissionPolicyList],
			spec: func(obj runtime.Object) any { return obj.(*v1.ValidatingAdmissionPolicy).Spec }, columns: validatingPolicyColumns,
		},
		{
			plural: "validatingadmissionpolicybindings", singular: "validatingadmissionpolicybinding",
			newObject: newOf[v1.ValidatingAdmissionPolicyBinding], newList: newOf[v1.ValidatingAdmissionPolicyBindingList],
			spec: func(obj runtime.Object) any { return obj.(*v1.ValidatingAdmissionPolicyBinding).Spec }, columns: bindingColumns,
		},
		{
			plural: "validatingwebhookconfigurations", singular: "validatingwebhookconfiguration",
			newObject: newOf[v1.ValidatingWebhookConfiguration], newList: newOf[v1.ValidatingWebhookConfigurationList],
			spec: func(obj runtime.Object) any { return obj.(*v1.ValidatingWebhookConfiguration).Webhooks }, columns: webhookColumns,
		},
	}
}

func newOf[T any, P interface {
	*T
	runtime.Object
}]() runtime.Object {
	return P(new(T))
}

func newStore(k kind, opts generic.RESTOptionsGetter, params *paramReaders) (*genericregistry.Store, error) {
	strategy := newStrategy(k, params)
	store := &genericregistry.Store{
		NewFunc:                   k.newObject,
		NewListFunc:               k.newList,
		DefaultQualifiedResource:  v1.Resource(k.plural),
		SingularQualifiedResource: v1.Resource(k.singular),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            k.columns,
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: opts})
}

// resource is a store whose kind "kubectl get api-extensions" lists.
type resource struct {
	*genericregistry.Store
}

var _ rest.CategoriesProvider = resource{}

func (resource) Categories() []string { return []string{"api-extensions"} }
