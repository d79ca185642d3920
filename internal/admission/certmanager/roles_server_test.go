package certmanager_test

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// The rights of view, edit and admin for cert-manager's kinds in a namespace,
// and the rights that only an administrator of the cluster has.
func TestRoles(t *testing.T) {
	w := start(t)
	roles := []string{"view", "edit", "admin"}
	for _, role := range roles {
		err := w.admin.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const (
		read  = "get list watch"
		write = "create delete deletecollection patch update"
	)
	everybody, writers, nobody := roles, roles[1:], []string(nil)
	tests := []struct {
		group, resource, verbs string
		who                    []string
	}{
		{"cert-manager.io", "certificates", read, everybody},
		{"cert-manager.io", "certificaterequests", read, everybody},
		{"cert-manager.io", "issuers", read, everybody},
		{"acme.cert-manager.io", "orders", read, everybody},
		{"acme.cert-manager.io", "challenges", read, everybody},
		{"cert-manager.io", "certificates", write, writers},
		{"cert-manager.io", "certificaterequests", write, writers},
		{"cert-manager.io", "issuers", write, writers},
		{"cert-manager.io", "certificates/status", "update", writers},
		{"acme.cert-manager.io", "challenges", "delete deletecollection patch update", writers},
		{"acme.cert-manager.io", "challenges", "create", nobody},
		{"acme.cert-manager.io", "orders", "delete", writers},
		{"acme.cert-manager.io", "orders", "create patch update", nobody},
		{"cert-manager.io", "clusterissuers", write, nobody},
		{"cert-manager.io", "certificaterequests/status", "update patch", nobody},
		{"cert-manager.io", "signers", "approve", nobody},
	}
	for _, tc := range tests {
		t.Run(tc.resource+" "+tc.verbs, func(t *testing.T) {
			for _, verb := range strings.Fields(tc.verbs) {
				apitest.Eventually(t, verb+" "+tc.resource+" is for "+strings.Join(tc.who, ", "), func() bool {
					return slices.Equal(w.allowed(t, roles, verb, tc.group, tc.resource), tc.who)
				})
			}
		})
	}
}

// allowed returns those of users who may do something in the namespace.
func (w *world) allowed(t *testing.T, users []string, verb, group, resource string) (allowed []string) {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	for _, user := range users {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource},
		}}
		if err := w.admin.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed {
			allowed = append(allowed, user)
		}
	}
	return allowed
}
