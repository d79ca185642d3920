// Package rbac has the defaults and the validation of the objects of
// rbac.authorization.k8s.io.
package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers the four kinds in v1. The v1 types are also the internal types, so
// conversions are not needed.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: rbacv1.GroupName, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{rbacv1.SchemeGroupVersion, internal} {
		scheme.AddKnownTypes(gv,
			&rbacv1.Role{}, &rbacv1.RoleList{},
			&rbacv1.RoleBinding{}, &rbacv1.RoleBindingList{},
			&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{},
			&rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRoleBindingList{},
		)
	}
	metav1.AddToGroupVersion(scheme, rbacv1.SchemeGroupVersion)
	addDefaults(scheme)
	if err := scheme.SetVersionPriority(rbacv1.SchemeGroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", rbacv1.GroupName, err)
	}
	return nil
}
