package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	authzrbac "github.com/certplane/certplane/internal/apiserver/authz/rbac"
)

var _ authzrbac.Policy = stored{}

// stored is the policy as the store has it now.
type stored stores

func (s stored) Role(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	return get[*rbacv1.Role](genericapirequest.WithNamespace(ctx, namespace), s.roles, name)
}

func (s stored) ClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	return get[*rbacv1.ClusterRole](genericapirequest.WithNamespace(ctx, metav1.NamespaceNone), s.clusterRoles, name)
}

func (s stored) RoleBindings(ctx context.Context, namespace string, _ user.Info) ([]*rbacv1.RoleBinding, error) {
	list, err := s.roleBindings.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pointers(list.(*rbacv1.RoleBindingList).Items), nil
}

func (s stored) ClusterRoleBindings(ctx context.Context, _ user.Info) ([]*rbacv1.ClusterRoleBinding, error) {
	list, err := s.clusterRoleBindings.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceNone), &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pointers(list.(*rbacv1.ClusterRoleBindingList).Items), nil
}

func get[T runtime.Object](ctx context.Context, store *genericregistry.Store, name string) (T, error) {
	obj, err := store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
