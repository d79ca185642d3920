package rbac

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func TestDefaults(t *testing.T) {
	tests := []struct {
		reason string
		json   string
		want   rbacv1.ClusterRoleBinding
	}{
		{"omitted groups", `{"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"Group","name":"g"},{"kind":"ServiceAccount","name":"s"},{"kind":"Robot","name":"x"}]}`,
			rbacv1.ClusterRoleBinding{
				RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "r"},
				Subjects: []rbacv1.Subject{
					{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "u"},
					{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "g"},
					{Kind: "ServiceAccount", Name: "s"},
					{Kind: "Robot", Name: "x"},
				},
			}},
		{"given groups stay, wrong ones too: validation names them", `{"roleRef":{"apiGroup":"a","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","apiGroup":"b","name":"u"}]}`,
			rbacv1.ClusterRoleBinding{
				RoleRef:  rbacv1.RoleRef{APIGroup: "a", Kind: "ClusterRole", Name: "r"},
				Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "b", Name: "u"}},
			}},
	}
	codecs := serializer.NewCodecFactory(newScheme(t))
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			gvk := rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")
			obj, _, err := codecs.UniversalDecoder().Decode([]byte(tt.json), &gvk, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, obj); diff != "" {
				t.Errorf("decoded to the internal version (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultsInLists(t *testing.T) {
	scheme := newScheme(t)
	cluster := &rbacv1.ClusterRoleBindingList{Items: []rbacv1.ClusterRoleBinding{{}, {}}}
	namespaced := &rbacv1.RoleBindingList{Items: []rbacv1.RoleBinding{{}, {}}}
	scheme.Default(cluster)
	scheme.Default(namespaced)
	if got := cluster.Items[1].RoleRef.APIGroup; got != rbacv1.GroupName {
		t.Errorf("API group of the second cluster role binding = %q", got)
	}
	if got := namespaced.Items[1].RoleRef.APIGroup; got != rbacv1.GroupName {
		t.Errorf("API group of the second role binding = %q", got)
	}
}
