package authz

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
)

func TestNew(t *testing.T) {
	shared := informers.NewSharedInformerFactory(nil, 0)
	got, err := New(Config{Informers: shared})
	if err != nil {
		t.Fatal(err)
	}
	v1 := shared.Rbac().V1()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "ann"}},
	}
	dangling := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "nosuch"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "ben"}},
	}
	for _, err := range []error{
		v1.ClusterRoles().Informer().GetIndexer().Add(role),
		v1.ClusterRoleBindings().Informer().GetIndexer().Add(binding),
		v1.ClusterRoleBindings().Informer().GetIndexer().Add(dangling),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	tests := []struct {
		reason     string
		user       user.Info
		want       authorizer.Decision
		wantReason string
		wantErr    bool
	}{
		{"administrators need no role", &user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}, authorizer.DecisionAllow, "", false},
		{"RBAC allows", &user.DefaultInfo{Name: "ann"}, authorizer.DecisionAllow, `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "ann"`, false},
		{"nothing allows", &user.DefaultInfo{Name: "eve"}, authorizer.DecisionNoOpinion, "", false},
		{"the reason is RBAC's own", &user.DefaultInfo{Name: "ben"}, authorizer.DecisionNoOpinion, `RBAC: clusterrole.rbac.authorization.k8s.io "nosuch" not found`, false},
		{"a request without a user", nil, authorizer.DecisionNoOpinion, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			decision, reason, err := got.Authorize(t.Context(), authorizer.AttributesRecord{User: tt.user, Verb: "get", Path: "/x"})
			if decision != tt.want || reason != tt.wantReason || (err != nil) != tt.wantErr {
				t.Errorf("Authorize = %v, %q, %v; want %v, %q, error: %v", decision, reason, err, tt.want, tt.wantReason, tt.wantErr)
			}
		})
	}

	if _, urls, _, err := got.RulesFor(t.Context(), &user.DefaultInfo{Name: "ann"}, ""); err != nil || len(urls) != 1 {
		t.Errorf("RulesFor(ann) = %v, %v; want one URL rule", urls, err)
	}
}
