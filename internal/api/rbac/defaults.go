package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func addDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&rbacv1.RoleBinding{}, func(obj any) {
		binding := obj.(*rbacv1.RoleBinding)
		setBindingDefaults(&binding.RoleRef, binding.Subjects)
	})
	scheme.AddTypeDefaultingFunc(&rbacv1.RoleBindingList{}, func(obj any) {
		for i := range obj.(*rbacv1.RoleBindingList).Items {
			scheme.Default(&obj.(*rbacv1.RoleBindingList).Items[i])
		}
	})
	scheme.AddTypeDefaultingFunc(&rbacv1.ClusterRoleBinding{}, func(obj any) {
		binding := obj.(*rbacv1.ClusterRoleBinding)
		setBindingDefaults(&binding.RoleRef, binding.Subjects)
	})
	scheme.AddTypeDefaultingFunc(&rbacv1.ClusterRoleBindingList{}, func(obj any) {
		for i := range obj.(*rbacv1.ClusterRoleBindingList).Items {
			scheme.Default(&obj.(*rbacv1.ClusterRoleBindingList).Items[i])
		}
	})
}

// setBindingDefaults fills in the API groups that a binding's author may omit.
// A service account is of the core group, whose name is empty.
func setBindingDefaults(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if role.APIGroup == "" {
		role.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		subject := &subjects[i]
		isIdentity := subject.Kind == rbacv1.UserKind || subject.Kind == rbacv1.GroupKind
		if isIdentity && subject.APIGroup == "" {
			subject.APIGroup = rbacv1.GroupName
		}
	}
}
