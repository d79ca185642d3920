package rbac_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
)

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func start(t *testing.T) world {
	t.Helper()
	s := apitest.Start(t)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

func (w world) as(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, w.As(t, user))
}

func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: strings.Fields(resources), ResourceNames: names}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func bindTo(role, user string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-to-" + user},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
	}
}

// grant creates a role with rules, binds it to user, and waits until the
// authorizer has seen it.
func (w world) grant(t *testing.T, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	rules = append(rules, rule("get", "test", user)) // grant waits for this rule
	roles, bindings := w.admin.RbacV1().ClusterRoles(), w.admin.RbacV1().ClusterRoleBindings()
	if _, err := roles.Create(t.Context(), clusterRole("of-"+user, rules...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), bindTo("of-"+user, user), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the authorizer knows the rights of "+user, func(ctx context.Context) (bool, error) {
		return w.allowed(ctx, user, "", authorizationv1.ResourceAttributes{Verb: "get", Group: "test", Resource: user})
	})
}

func (w world) allowed(ctx context.Context, user, namespace string, attributes authorizationv1.ResourceAttributes) (bool, error) {
	attributes.Namespace = namespace
	review, err := w.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// eventually waits for what the server learns from its watches.
func eventually(t *testing.T, what string, holds wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, holds); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestServer(t *testing.T) {
	w := start(t)
	apitest.NewNamespace(t, w.admin, "blue")
	apitest.NewNamespace(t, w.admin, "any-namespace")
	t.Run("escalation", w.testEscalation)
	t.Run("bind", w.testBind)
	t.Run("aggregation", w.testAggregation)
	t.Run("namespaced roles", w.testNamespacedRoles)
	t.Run("validation", w.testValidation)
	t.Run("tables", w.testTables)
	t.Run("discovery", w.testDiscovery)
}

func (w world) testAggregation(t *testing.T) {
	roles := w.admin.RbacV1().ClusterRoles()
	rulesOf := func(name string, want ...rbacv1.PolicyRule) {
		t.Helper()
		var got []rbacv1.PolicyRule
		eventually(t, name+" has its rules", func(ctx context.Context) (bool, error) {
			role, err := roles.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			got = role.Rules
			return cmp.Equal(want, got) || len(want) == 0 && len(got) == 0, nil
		})
	}
	part := clusterRole("part", rule("get", "example.com", "things"))
	part.Labels = map[string]string{"part-of": "whole"}
	whole := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "whole"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"part-of": "whole"}},
		}},
		Rules: []rbacv1.PolicyRule{rule("get", "", "secrets")},
	}
	for _, role := range []*rbacv1.ClusterRole{whole, part} {
		if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rulesOf("whole", part.Rules...)
	if err := roles.Delete(t.Context(), "part", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rulesOf("whole")

	eventually(t, "admin includes edit and view", func(ctx context.Context) (bool, error) {
		role, err := roles.Get(ctx, "admin", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		raw, err := json.Marshal(role.Rules)
		text := string(raw)
		return strings.Contains(text, "rolebindings") && strings.Contains(text, "leases") && strings.Contains(text, "pods/log"), err
	})
}

func (w world) testNamespacedRoles(t *testing.T) {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule("get", "", "secrets")}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "r"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "nina"}},
	}
	if _, err := w.admin.RbacV1().Roles("any-namespace").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.RbacV1().RoleBindings("any-namespace").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secrets := authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Name: "x"}
	eventually(t, "nina may read secrets", func(ctx context.Context) (bool, error) {
		return w.allowed(ctx, "nina", "any-namespace", secrets)
	})
	for _, elsewhere := range []string{"", "other"} {
		if allowed, err := w.allowed(t.Context(), "nina", elsewhere, secrets); allowed || err != nil {
			t.Errorf("allowed in namespace %q = %v, %v", elsewhere, allowed, err)
		}
	}
	if err := w.admin.RbacV1().RoleBindings("any-namespace").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nina may not read secrets any more", func(ctx context.Context) (bool, error) {
		allowed, err := w.allowed(ctx, "nina", "any-namespace", secrets)
		return !allowed, err
	})
}

func (w world) testValidation(t *testing.T) {
	bindings := w.admin.RbacV1().ClusterRoleBindings()
	created, err := bindings.Create(t.Context(), bindTo("view", "val"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.RoleRef.APIGroup != rbacv1.GroupName || created.Subjects[0].APIGroup != rbacv1.GroupName {
		t.Errorf("API groups are not filled in: %+v", created)
	}
	moved := created.DeepCopy()
	moved.RoleRef.Name = "edit"
	_, err = bindings.Update(t.Context(), moved, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot change roleRef") {
		t.Errorf("changing the role: %v", err)
	}
	_, err = w.admin.RbacV1().ClusterRoles().Create(t.Context(), clusterRole("bad", rbacv1.PolicyRule{}), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "rules[0].verbs: Required value") {
		t.Errorf("creating an empty rule: %v", err)
	}
}

func (w world) testTables(t *testing.T) {
	if _, err := w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), bindTo("view", "tab"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for resource, want := range map[string][]string{
		"clusterroles/view":               {"Name", "Created At"},
		"clusterrolebindings/view-to-tab": {"Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"},
	} {
		raw, err := w.admin.RbacV1().RESTClient().Get().AbsPath("/apis/rbac.authorization.k8s.io/v1/"+resource).
			SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(raw, &table); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, column := range table.ColumnDefinitions {
			got = append(got, column.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("columns of %s (-want +got):\n%s", resource, diff)
		}
	}
}

func (w world) testDiscovery(t *testing.T) {
	list, err := w.as(t, "anybody").Discovery().ServerResourcesForGroupVersion("rbac.authorization.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list.APIResources {
		line := r.Name + " " + r.SingularName + " " + r.Kind
		if r.Namespaced {
			line += " namespaced"
		}
		got = append(got, line)
		if len(r.ShortNames) != 0 || len(r.Categories) != 0 {
			t.Errorf("%s has short names %v and categories %v, want none", r.Name, r.ShortNames, r.Categories)
		}
	}
	want := []string{
		"clusterrolebindings clusterrolebinding ClusterRoleBinding",
		"clusterroles clusterrole ClusterRole",
		"rolebindings rolebinding RoleBinding namespaced",
		"roles role Role namespaced",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// A restarted server repairs what it needs and keeps what users have added.
func TestRestart(t *testing.T) {
	w := start(t)
	roles, bindings := w.admin.RbacV1().ClusterRoles(), w.admin.RbacV1().ClusterRoleBindings()
	discovery, err := roles.Get(t.Context(), "system:discovery", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	discovery.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/extra"}}}
	monitoring, err := roles.Get(t.Context(), "system:monitoring", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	monitoring.Rules = nil
	monitoring.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	for _, role := range []*rbacv1.ClusterRole{discovery, monitoring} {
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := bindings.Delete(t.Context(), "system:discovery", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	roles, bindings = w.admin.RbacV1().ClusterRoles(), w.admin.RbacV1().ClusterRoleBindings()
	if discovery, err = roles.Get(t.Context(), "system:discovery", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(discovery.Rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/extra", "/openapi"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("system:discovery lacks %s: %s", want, text)
		}
	}
	if monitoring, err = roles.Get(t.Context(), "system:monitoring", metav1.GetOptions{}); err != nil || len(monitoring.Rules) != 0 {
		t.Errorf("system:monitoring = %v, %v; want it left alone", monitoring.Rules, err)
	}
	if _, err := bindings.Get(t.Context(), "system:discovery", metav1.GetOptions{}); err != nil {
		t.Errorf("the binding system:discovery: %v", err)
	}
}
