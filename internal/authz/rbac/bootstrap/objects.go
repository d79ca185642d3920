// Package bootstrap keeps the roles and bindings that every server starts
// with.
package bootstrap

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRoles returns the roles that every server starts with.
func ClusterRoles() []*rbacv1.ClusterRole {
	var out []*rbacv1.ClusterRole
	for _, r := range slices.Concat(userRoles(), certificateRoles(), certManagerRoles()) {
		out = append(out, r.object())
	}
	for _, c := range controllers() {
		out = append(out, role{name: c.name(), rules: c.rules}.object())
	}
	return out
}

// ClusterRoleBindings returns the bindings that every server starts with.
func ClusterRoleBindings() []*rbacv1.ClusterRoleBinding {
	var out []*rbacv1.ClusterRoleBinding
	for _, b := range bindings() {
		var subjects []rbacv1.Subject
		for _, name := range b.groups {
			subjects = append(subjects, group(name))
		}
		out = append(out, bind(b.role, subjects...))
	}
	for _, c := range controllers() {
		out = append(out, bind(c.name(), serviceAccount(c.account)))
	}
	return out
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func serviceAccount(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: name}
}

func (c controller) name() string {
	return "system:controller:" + c.account
}

func (r role) object() *rbacv1.ClusterRole {
	object := &rbacv1.ClusterRole{ObjectMeta: meta(r.name), Rules: r.rules}
	if r.joins != "" {
		object.Labels[r.joins] = "true"
	}
	if r.gathers != "" {
		object.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{r.gathers: "true"}},
		}}
	}
	return object
}

func bind(role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta(role),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	}
}

// meta marks an object as one that Reconcile keeps complete until somebody
// sets the annotation to "false".
func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}
