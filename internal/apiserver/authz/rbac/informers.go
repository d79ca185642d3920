package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// bySubject indexes bindings by the users and groups they name, so that a
// decision does not visit the bindings of all other users.
const bySubject = "certplane.dev/rbac-subject"

// FromInformers returns the policy in the informers of shared. It must be
// called once, before they start.
func FromInformers(shared informers.SharedInformerFactory) Policy {
	v1 := shared.Rbac().V1()
	roleBindings, clusterRoleBindings := v1.RoleBindings().Informer(), v1.ClusterRoleBindings().Informer()
	// Adding an index fails only if the factory is already in use.
	utilruntime.Must(roleBindings.AddIndexers(cache.Indexers{bySubject: indexRoleBinding}))
	utilruntime.Must(clusterRoleBindings.AddIndexers(cache.Indexers{bySubject: indexClusterRoleBinding}))
	return informed{
		roles:               v1.Roles().Lister(),
		clusterRoles:        v1.ClusterRoles().Lister(),
		roleBindings:        roleBindings.GetIndexer(),
		clusterRoleBindings: clusterRoleBindings.GetIndexer(),
	}
}

// informed is a policy in the caches of informers. The role listers' "not
// found" errors are part of the reason that a refused user reads.
type informed struct {
	roles               rbaclisters.RoleLister
	clusterRoles        rbaclisters.ClusterRoleLister
	roleBindings        cache.Indexer
	clusterRoleBindings cache.Indexer
}

func (p informed) Role(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	return p.roles.Roles(namespace).Get(name)
}

func (p informed) ClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	return p.clusterRoles.Get(name)
}

func (p informed) RoleBindings(_ context.Context, namespace string, u user.Info) ([]*rbacv1.RoleBinding, error) {
	return lookup[*rbacv1.RoleBinding](p.roleBindings, inNamespace(namespace, userKeys(u)))
}

func (p informed) ClusterRoleBindings(_ context.Context, u user.Info) ([]*rbacv1.ClusterRoleBinding, error) {
	return lookup[*rbacv1.ClusterRoleBinding](p.clusterRoleBindings, userKeys(u))
}

func indexRoleBinding(obj any) ([]string, error) {
	binding := obj.(*rbacv1.RoleBinding)
	return inNamespace(binding.Namespace, subjectKeys(binding.Subjects, binding.Namespace)), nil
}

func indexClusterRoleBinding(obj any) ([]string, error) {
	return subjectKeys(obj.(*rbacv1.ClusterRoleBinding).Subjects, ""), nil
}

// inNamespace prefixes keys. A namespace name never contains a slash, so keys
// of different namespaces cannot collide.
func inNamespace(namespace string, keys []string) []string {
	for i := range keys {
		keys[i] = namespace + "/" + keys[i]
	}
	return keys
}

// lookup returns each object that has any of keys once.
func lookup[T comparable](indexer cache.Indexer, keys []string) ([]T, error) {
	var found []T
	seen := map[T]struct{}{}
	for _, key := range keys {
		objs, err := indexer.ByIndex(bySubject, key)
		if err != nil {
			return nil, err
		}
		for _, obj := range objs {
			object := obj.(T)
			if _, dup := seen[object]; dup {
				continue
			}
			seen[object] = struct{}{}
			found = append(found, object)
		}
	}
	return found, nil
}
