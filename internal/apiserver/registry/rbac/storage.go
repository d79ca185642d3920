// Package rbac serves rbac.authorization.k8s.io. Users can grant only rights
// that they have.
package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	authzrbac "github.com/certplane/certplane/internal/apiserver/authz/rbac"
	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the API group.
type Options struct {
	// RESTOptions configures where objects are stored.
	RESTOptions generic.RESTOptionsGetter
	// Authorizer decides whether a user may escalate or bind.
	Authorizer authorizer.Authorizer
}

// NewAPIGroup returns the four resources.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	stores, err := newStores(opts.RESTOptions)
	if err != nil {
		return genericapiserver.APIGroupInfo{}, err
	}
	// Checks read the store and not a cache: a role that has just been created
	// must exist for its binding, and a right that has just been removed must
	// be gone.
	guard := grants{authorizer: opts.Authorizer, resolver: authzrbac.NewResolver(stored(stores))}

	group := kind.NewGroup(rbacv1.GroupName)
	group.VersionedResourcesStorageMap[rbacv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"roles":               guarded{stores.roles, guard.checkRole},
		"clusterroles":        guarded{stores.clusterRoles, guard.checkClusterRole},
		"rolebindings":        guarded{stores.roleBindings, guard.checkRoleBinding},
		"clusterrolebindings": guarded{stores.clusterRoleBindings, guard.checkClusterRoleBinding},
	}
	return group, nil
}

// stores are the four resources without the checks of the rights that users may grant.
type stores struct {
	roles, clusterRoles, roleBindings, clusterRoleBindings *genericregistry.Store
}

func newStores(opts generic.RESTOptionsGetter) (stores, error) {
	var s stores
	for _, r := range []resource{
		{store: &s.roles, plural: "roles", singular: "role", namespaced: true,
			newObject: newOf[rbacv1.Role], newList: newOf[rbacv1.RoleList]},
		{store: &s.clusterRoles, plural: "clusterroles", singular: "clusterrole",
			newObject: newOf[rbacv1.ClusterRole], newList: newOf[rbacv1.ClusterRoleList]},
		{store: &s.roleBindings, plural: "rolebindings", singular: "rolebinding", namespaced: true,
			newObject: newOf[rbacv1.RoleBinding], newList: newOf[rbacv1.RoleBindingList],
			table: bindingTable{noun: "roleBinding"}},
		{store: &s.clusterRoleBindings, plural: "clusterrolebindings", singular: "clusterrolebinding",
			newObject: newOf[rbacv1.ClusterRoleBinding], newList: newOf[rbacv1.ClusterRoleBindingList],
			table: bindingTable{noun: "clusterRoleBinding"}},
	} {
		store, err := newStore(r, opts)
		if err != nil {
			return stores{}, fmt.Errorf("opening the store of %s: %w", r.plural, err)
		}
		*r.store = store
	}
	return s, nil
}

// resource has the differences between the four.
type resource struct {
	store              **genericregistry.Store
	plural, singular   string
	namespaced         bool
	newObject, newList func() runtime.Object
	table              rest.TableConvertor // nil for the columns Name and Created At
}

func newOf[T any, P interface {
	*T
	runtime.Object
}]() runtime.Object {
	return P(new(T))
}

func newStore(r resource, opts generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	strategy := newStrategy(r.namespaced)
	store := &genericregistry.Store{
		NewFunc:                   r.newObject,
		NewListFunc:               r.newList,
		DefaultQualifiedResource:  rbacv1.Resource(r.plural),
		SingularQualifiedResource: rbacv1.Resource(r.singular),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		TableConvertor:            r.table,
	}
	if store.TableConvertor == nil {
		store.TableConvertor = rest.NewDefaultTableConvertor(store.DefaultQualifiedResource)
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: opts})
}
