package rbac

import (
	"context"
	"net/http"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"

	authzrbac "github.com/certplane/certplane/internal/apiserver/authz/rbac"
)

func allow(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func aggregated(role *rbacv1.ClusterRole) *rbacv1.ClusterRole {
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}
	return role
}

func refTo(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// newGrants returns the checks for roles that are each bound to a user of the
// same name, and blue's role to "blue".
func newGrants(t *testing.T, roles ...*rbacv1.ClusterRole) grants {
	t.Helper()
	shared := informers.NewSharedInformerFactory(nil, 0)
	policy := authzrbac.FromInformers(shared)
	v1 := shared.Rbac().V1()
	add := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range roles {
		add(v1.ClusterRoles().Informer().GetIndexer().Add(role))
		add(v1.ClusterRoleBindings().Informer().GetIndexer().Add(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    refTo("ClusterRole", role.Name),
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: role.Name}},
		}))
	}
	add(v1.Roles().Informer().GetIndexer().Add(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "blue"},
		Rules:      []rbacv1.PolicyRule{allow("get", "", "secrets")},
	}))
	add(v1.RoleBindings().Informer().GetIndexer().Add(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "blue"},
		RoleRef:    refTo("Role", "blue"),
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "blue"}},
	}))
	return grants{authorizer: authzrbac.New(policy), resolver: authzrbac.NewResolver(policy)}
}

// request returns the context of a write by a user of this name.
func request(userName, namespace, resource, name string) context.Context {
	ctx := genericapirequest.NewContext()
	ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: userName})
	ctx = genericapirequest.WithNamespace(ctx, namespace)
	return genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: rbacv1.GroupName, Resource: resource, Namespace: namespace, Name: name,
	})
}

func codeOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	return http.StatusInternalServerError
}

func TestCheckRoles(t *testing.T) {
	secrets := allow("get", "", "secrets")
	g := newGrants(t,
		clusterRole("reader", secrets),
		clusterRole("root", allRights...),
		clusterRole("escalator", allow("escalate", rbacv1.GroupName, "clusterroles")),
		clusterRole("escalator-of-x", allow("escalate", rbacv1.GroupName, "clusterroles", "x")),
		clusterRole("escalator-of-roles", allow("escalate", rbacv1.GroupName, "roles")),
	)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{secrets}}
	cluster := clusterRole("x", secrets)
	tests := []struct {
		reason   string
		ctx      context.Context
		obj, old runtime.Object
		want     int
	}{
		{"rules held", request("reader", "", "clusterroles", ""), cluster, nil, 200},
		{"rules not held", request("eve", "", "clusterroles", ""), cluster, nil, 403},
		{"no rules", request("eve", "", "clusterroles", ""), clusterRole("x"), nil, 200},
		{"rules held in a namespace are not held in the cluster", request("blue", "", "clusterroles", ""), cluster, nil, 403},
		{"rules held in the namespace", request("blue", "blue", "roles", ""), role, nil, 200},
		{"rules held in another namespace", request("blue", "red", "roles", ""), role, nil, 403},
		{"rules held in the cluster", request("reader", "red", "roles", ""), role, nil, 200},
		{"escalate on all", request("escalator", "", "clusterroles", ""), cluster, nil, 200},
		{"escalate on the kind alone", request("escalator", "blue", "roles", ""), role, nil, 403},
		{"escalate on roles", request("escalator-of-roles", "blue", "roles", ""), role, nil, 200},
		{"escalate on the name, which a POST does not give", request("escalator-of-x", "", "clusterroles", ""), cluster, nil, 403},
		{"escalate on the name", request("escalator-of-x", "", "clusterroles", "x"), cluster, clusterRole("x"), 200},
		{"escalate on another name", request("escalator-of-x", "", "clusterroles", "y"), clusterRole("y", secrets), clusterRole("y"), 403},
		{"administrator", genericapirequest.WithUser(request("", "", "clusterroles", ""), &user.DefaultInfo{Groups: []string{"system:masters"}}), cluster, nil, 200},
		{"nobody", genericapirequest.NewContext(), cluster, nil, 403},

		{"aggregation by one with all rights", request("root", "", "clusterroles", ""), aggregated(clusterRole("x")), nil, 200},
		{"aggregation by one without", request("reader", "", "clusterroles", ""), aggregated(clusterRole("x", secrets)), nil, 403},
		{"aggregation by an escalator", request("escalator", "", "clusterroles", ""), aggregated(clusterRole("x")), nil, 200},
		{"the end of an aggregation", request("reader", "", "clusterroles", "x"), clusterRole("x"), aggregated(clusterRole("x")), 403},
		{"an empty aggregation gathers nothing: validation refuses it", request("eve", "", "clusterroles", ""),
			&rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{}}, nil, 200},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			check := g.checkClusterRole
			if _, ok := tt.obj.(*rbacv1.Role); ok {
				check = g.checkRole
			}
			if err := check(tt.ctx, tt.obj, tt.old); codeOf(err) != tt.want {
				t.Errorf("check = %v, want status %d", err, tt.want)
			}
		})
	}
}

func TestCheckBindings(t *testing.T) {
	g := newGrants(t,
		clusterRole("reader", allow("get", "", "secrets")),
		clusterRole("binder", allow("bind", rbacv1.GroupName, "clusterroles")),
		clusterRole("binder-of-reader", allow("bind", rbacv1.GroupName, "clusterroles", "reader")),
		clusterRole("binder-of-roles", allow("bind", rbacv1.GroupName, "roles")),
	)
	inBlue := func(ref rbacv1.RoleRef) runtime.Object { return &rbacv1.RoleBinding{RoleRef: ref} }
	everywhere := func(ref rbacv1.RoleRef) runtime.Object { return &rbacv1.ClusterRoleBinding{RoleRef: ref} }
	tests := []struct {
		reason    string
		user      string
		namespace string
		obj       runtime.Object
		want      int
	}{
		{"rules held", "reader", "", everywhere(refTo("ClusterRole", "reader")), 200},
		{"rules not held", "eve", "", everywhere(refTo("ClusterRole", "reader")), 403},
		{"bind on all", "binder", "", everywhere(refTo("ClusterRole", "reader")), 200},
		{"bind on the name", "binder-of-reader", "", everywhere(refTo("ClusterRole", "reader")), 200},
		{"bind on another name", "binder-of-reader", "", everywhere(refTo("ClusterRole", "binder")), 403},
		{"bind on the other kind", "binder-of-roles", "blue", inBlue(refTo("ClusterRole", "reader")), 403},
		{"bind on roles", "binder-of-roles", "blue", inBlue(refTo("Role", "blue")), 200},
		{"bind needs no role to be there yet", "binder", "", everywhere(refTo("ClusterRole", "nosuch")), 200},
		{"role is not there", "reader", "", everywhere(refTo("ClusterRole", "nosuch")), 404},
		{"cluster role in a namespace, rules held there", "blue", "blue", inBlue(refTo("ClusterRole", "reader")), 200},
		{"cluster role in another namespace", "blue", "red", inBlue(refTo("ClusterRole", "reader")), 403},
		{"role of the namespace, rules held in the cluster", "reader", "blue", inBlue(refTo("Role", "blue")), 200},
		{"role of another namespace", "reader", "red", inBlue(refTo("Role", "blue")), 404},
		{"unknown kind of role", "reader", "blue", inBlue(refTo("Widget", "x")), 422},
		{"role in a cluster role binding", "reader", "", everywhere(refTo("Role", "x")), 422},
		{"role without a name", "reader", "", everywhere(refTo("ClusterRole", "")), 422},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			check, resource := g.checkClusterRoleBinding, "clusterrolebindings"
			if _, ok := tt.obj.(*rbacv1.RoleBinding); ok {
				check, resource = g.checkRoleBinding, "rolebindings"
			}
			if err := check(request(tt.user, tt.namespace, resource, ""), tt.obj, nil); codeOf(err) != tt.want {
				t.Errorf("check = %v, want status %d", err, tt.want)
			}
		})
	}
}
