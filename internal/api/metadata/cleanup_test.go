package metadata

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsCleanup(t *testing.T) {
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	old := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{rule}}
	old.Finalizers = []string{"a.b/c"}
	old.OwnerReferences = []metav1.OwnerReference{{Name: "o"}}
	tests := []struct {
		reason string
		change func(*rbacv1.ClusterRole)
		want   bool
	}{
		{"nothing", func(*rbacv1.ClusterRole) {}, true},
		{"a finalizer goes", func(r *rbacv1.ClusterRole) { r.Finalizers = nil }, true},
		{"an owner goes", func(r *rbacv1.ClusterRole) { r.OwnerReferences = nil }, true},
		{"managed fields", func(r *rbacv1.ClusterRole) { r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }, true},
		{"empty lists are no lists", func(r *rbacv1.ClusterRole) { r.Labels = map[string]string{} }, true},
		{"a label", func(r *rbacv1.ClusterRole) { r.Labels = map[string]string{"k": "v"} }, false},
		{"a rule", func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, rule) }, false},
		{"a finalizer and a rule", func(r *rbacv1.ClusterRole) { r.Finalizers, r.Rules = nil, nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			obj := old.DeepCopy()
			tt.change(obj)
			if got := IsCleanup(obj, old); got != tt.want {
				t.Errorf("IsCleanup = %v, want %v", got, tt.want)
			}
		})
	}
}
