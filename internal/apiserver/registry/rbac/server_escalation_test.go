package rbac_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
)

func (w world) testEscalation(t *testing.T) {
	w.grant(t, "dev",
		rule("create update patch", rbacv1.GroupName, "clusterroles roles"),
		rule("get list", "", "pods"))
	w.grant(t, "escalator",
		rule("create update patch escalate", rbacv1.GroupName, "clusterroles"))
	dev, escalator := w.as(t, "dev").RbacV1().ClusterRoles(), w.as(t, "escalator").RbacV1().ClusterRoles()
	pods, secrets := rule("get", "", "pods"), rule("get watch", "", "secrets")
	if _, err := dev.Create(t.Context(), clusterRole("held", pods), metav1.CreateOptions{}); err != nil {
		t.Errorf("creating a role with rules that the user holds: %v", err)
	}
	_, err := dev.Create(t.Context(), clusterRole("more", pods, secrets), metav1.CreateOptions{})
	want := `clusterroles.rbac.authorization.k8s.io "more" is forbidden: user "dev" (groups=["system:authenticated"])` +
		" is attempting to grant RBAC permissions not currently held:\n" +
		`{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch"]}`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("creating a role with more rules:\n got %v\nwant %s", err, want)
	}

	for how, err := range escalate(t, w.as(t, "dev").RbacV1(), secrets) {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: error = %v, want forbidden", how, err)
		}
	}
	w.checkNothingChanged(t, pods)

	if _, err := escalator.Create(t.Context(), clusterRole("more", secrets), metav1.CreateOptions{}); err != nil {
		t.Errorf("creating a role with the verb escalate: %v", err)
	}
}

// escalate tries all ways to write a role that contains rule. The ClusterRole
// "held" exists and can be changed.
func escalate(t *testing.T, dev rbacclient.RbacV1Interface, rule rbacv1.PolicyRule) map[string]error {
	t.Helper()
	ctx, roles := t.Context(), dev.ClusterRoles()
	apply := func(name string) error {
		config := rbacapply.ClusterRole(name).WithRules(rbacapply.PolicyRule().WithVerbs(rule.Verbs...).WithAPIGroups("").WithResources(rule.Resources...))
		_, err := roles.Apply(ctx, config, metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	}
	tried := map[string]error{"apply that would create": apply("applied"), "apply": apply("held")}
	_, tried["dry run"] = roles.Create(ctx, clusterRole("dry", rule), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	_, tried["PUT that would create"] = roles.Update(ctx, clusterRole("put", rule), metav1.UpdateOptions{})
	_, tried["PUT"] = roles.Update(ctx, clusterRole("held", rule), metav1.UpdateOptions{})
	_, tried["patch"] = roles.Patch(ctx, "held", types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/rules/-","value":{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}}]`), metav1.PatchOptions{})
	_, tried["role"] = dev.Roles("blue").Create(ctx,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	_, tried["aggregation"] = roles.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: "agg"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}},
	}, metav1.CreateOptions{})
	return tried
}

// checkNothingChanged checks that escalate has changed nothing.
func (w world) checkNothingChanged(t *testing.T, held rbacv1.PolicyRule) {
	t.Helper()
	list, err := w.admin.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range list.Items {
		switch role.Name {
		case "more", "applied", "dry", "put", "agg":
			t.Errorf("ClusterRole %s was stored", role.Name)
		case "held":
			if diff := cmp.Diff([]rbacv1.PolicyRule{held}, role.Rules); diff != "" {
				t.Errorf("ClusterRole held was changed (-want +got):\n%s", diff)
			}
		}
	}
}

func (w world) testBind(t *testing.T) {
	w.grant(t, "binder",
		rule("create update patch", rbacv1.GroupName, "clusterrolebindings rolebindings"),
		rule("bind", rbacv1.GroupName, "clusterroles", "view"),
		rule("get", "", "pods"))
	binder := w.as(t, "binder").RbacV1()
	roles := w.admin.RbacV1().ClusterRoles()
	for _, role := range []*rbacv1.ClusterRole{clusterRole("bind-pods", rule("get", "", "pods")), clusterRole("bind-secrets", rule("get", "", "secrets"))} {
		if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		reason string
		role   string
		want   metav1.StatusReason
	}{
		{"a role whose rules are held, made a moment ago", "bind-pods", ""},
		{"a role that the verb bind names", "view", ""},
		{"another role", "bind-secrets", metav1.StatusReasonForbidden},
		{"the highest role", "cluster-admin", metav1.StatusReasonForbidden},
		{"a role that does not exist", "bind-nothing", metav1.StatusReasonNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := binder.ClusterRoleBindings().Create(t.Context(), bindTo(tt.role, "eve"), metav1.CreateOptions{})
			if got := apierrors.ReasonForError(err); got != tt.want && !(err == nil && tt.want == "") {
				t.Errorf("cluster role binding: %v, want reason %q", err, tt.want)
			}
			binding := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "b-" + tt.role},
				RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: tt.role},
			}
			_, err = binder.RoleBindings("blue").Create(t.Context(), binding, metav1.CreateOptions{})
			if got := apierrors.ReasonForError(err); got != tt.want && !(err == nil && tt.want == "") {
				t.Errorf("role binding: %v, want reason %q", err, tt.want)
			}
		})
	}
}
