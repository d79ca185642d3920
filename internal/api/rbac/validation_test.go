package rbac

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	podReader    = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	healthReader = rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}
	ann          = rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}
	toRole       = rbacv1.RoleRef{Kind: "Role", APIGroup: rbacv1.GroupName, Name: "r"}
	toCluster    = rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: "r"}
)

func clusterMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}
}

func namespaceMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", Namespace: "blue", ResourceVersion: "1"}
}

func role(rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: namespaceMeta(), Rules: rules}
}

func clusterRole(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: clusterMeta(), Rules: rules}
}

func aggregate(selectors ...metav1.LabelSelector) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: clusterMeta(), AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}}
}

func roleBinding(ref rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: namespaceMeta(), RoleRef: ref, Subjects: subjects}
}

func clusterRoleBinding(ref rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: clusterMeta(), RoleRef: ref, Subjects: subjects}
}

func labelIn(value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{value}},
	}}
}

// summaries omits the values, which do not show which rule failed.
func summaries(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, fmt.Sprintf("%s: %s: %s", err.Field, err.Type, err.Detail))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// validateTest is an object and its errors.
type validateTest struct {
	reason string
	obj    runtime.Object
	want   []string
}

func runValidateTests(t *testing.T, tests []validateTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, summaries(Validate(tt.obj))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateRoles(t *testing.T) {
	runValidateTests(t, []validateTest{
		{"role", role(podReader), nil},
		{"role without rules", role(), nil},
		{"role without namespace", &rbacv1.Role{ObjectMeta: clusterMeta()}, []string{"metadata.namespace: Required value: "}},
		{"cluster role with namespace", &rbacv1.ClusterRole{ObjectMeta: namespaceMeta()}, []string{"metadata.namespace: Forbidden: not allowed on this type"}},
		{"names need not be DNS names", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:Node_x"}}, nil},
		{"name is one path segment", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "a/b"}}, []string{"metadata.name: Invalid value: may not contain '/'"}},
		{"name is no special segment", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ".."}}, []string{"metadata.name: Invalid value: may not be '..'"}},
		{"generated names have a looser prefix", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: ".."}}, []string{"metadata.name: Required value: name or generateName is required"}},
		{"rule without verbs", role(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}), []string{"rules[0].verbs: Required value: verbs must contain at least one value"}},
		{"rule without groups", role(podReader, rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"pods"}}), []string{"rules[1].apiGroups: Required value: resource rules must supply at least one api group"}},
		{"rule without resources", clusterRole(rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}}), []string{"rules[0].resources: Required value: resource rules must supply at least one resource"}},
		{"empty rule", clusterRole(rbacv1.PolicyRule{}), []string{
			"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
			"rules[0].resources: Required value: resource rules must supply at least one resource",
			"rules[0].verbs: Required value: verbs must contain at least one value",
		}},
		{"URLs in a cluster role", clusterRole(healthReader), nil},
		{"URLs in a role", role(healthReader), []string{"rules[0].nonResourceURLs: Invalid value: namespaced rules cannot apply to non-resource URLs"}},
		{"URLs and resources in one rule", clusterRole(rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"pods"}, NonResourceURLs: []string{"/x"}}),
			[]string{"rules[0].nonResourceURLs: Invalid value: rules cannot apply to both regular resources and non-resource URLs"}},

		{"aggregation", aggregate(metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}), nil},
		{"aggregation of nothing", aggregate(), []string{"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"}},
		{"aggregation with an unknown operator", aggregate(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}), []string{
			"aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: not a valid selector operator",
			"aggregationRule.clusterRoleSelectors[0]: Invalid value: invalid label selector.",
		}},
	})
}

func TestValidateBindings(t *testing.T) {
	runValidateTests(t, []validateTest{
		{"role binding to a role", roleBinding(toRole, ann), nil},
		{"role binding to a cluster role", roleBinding(toCluster, ann), nil},
		{"binding without subjects", clusterRoleBinding(toCluster), nil},
		{"role binding to something else", roleBinding(rbacv1.RoleRef{Kind: "Widget", Name: "r"}), []string{
			`roleRef.apiGroup: Unsupported value: supported values: "rbac.authorization.k8s.io"`,
			`roleRef.kind: Unsupported value: supported values: "Role", "ClusterRole"`,
		}},
		{"cluster role binding to a role", clusterRoleBinding(toRole, ann), []string{`roleRef.kind: Unsupported value: supported values: "ClusterRole"`}},
		{"binding to no name", clusterRoleBinding(rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName}), []string{"roleRef.name: Required value: "}},
		{"binding to a bad name", clusterRoleBinding(rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: "a%b"}), []string{"roleRef.name: Invalid value: may not contain '%'"}},

		{"subject without name", clusterRoleBinding(toCluster, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName}), []string{"subjects[0].name: Required value: "}},
		{"subject of unknown kind", clusterRoleBinding(toCluster, ann, rbacv1.Subject{Kind: "Robot", Name: "r"}),
			[]string{`subjects[1].kind: Unsupported value: supported values: "ServiceAccount", "User", "Group"`}},
		{"user names are free text", clusterRoleBinding(toCluster, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "CN=Ann / b"}), nil},
		{"user of another group", clusterRoleBinding(toCluster, rbacv1.Subject{Kind: "User", Name: "ann"}), []string{`subjects[0].apiGroup: Unsupported value: supported values: "rbac.authorization.k8s.io"`}},
		{"group of another group", clusterRoleBinding(toCluster, rbacv1.Subject{Kind: "Group", APIGroup: "v1", Name: "g"}), []string{`subjects[0].apiGroup: Unsupported value: supported values: "rbac.authorization.k8s.io"`}},
		{"account", clusterRoleBinding(toCluster, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "blue", Name: "robot"}), nil},
		{"account without namespace in a role binding", roleBinding(toCluster, rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"}), nil},
		{"account without namespace in a cluster role binding", clusterRoleBinding(toCluster, rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"}), []string{"subjects[0].namespace: Required value: "}},
		{"account with a group", roleBinding(toCluster, rbacv1.Subject{Kind: "ServiceAccount", APIGroup: rbacv1.GroupName, Name: "robot"}), []string{`subjects[0].apiGroup: Unsupported value: supported values: ""`}},
		{"not one of the kinds", &rbacv1.RoleList{}, []string{"<nil>: Internal error: unexpected type *v1.RoleList"}},
	})
}

func TestValidateAccountName(t *testing.T) {
	errs := Validate(roleBinding(toRole, rbacv1.Subject{Kind: "ServiceAccount", Name: "Not_DNS"}))
	if len(errs) != 1 || errs[0].Field != "subjects[0].name" || errs[0].Type != field.ErrorTypeInvalid {
		t.Errorf("errors = %v, want one about subjects[0].name", errs)
	}
}

func TestValidateUpdate(t *testing.T) {
	renamed := role(podReader)
	renamed.Name = "y"
	tests := []struct {
		reason   string
		obj, old runtime.Object
		want     []string
	}{
		{"role", role(podReader), role(), nil},
		{"role gets a bad rule", role(healthReader), role(), []string{"rules[0].nonResourceURLs: Invalid value: namespaced rules cannot apply to non-resource URLs"}},
		{"role is renamed", renamed, role(), []string{"metadata.name: Invalid value: field is immutable"}},
		{"cluster role", clusterRole(podReader), clusterRole(healthReader), nil},
		{"role binding, other subjects", roleBinding(toRole, ann), roleBinding(toRole), nil},
		{"role binding, bad subject", roleBinding(toRole, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName}), roleBinding(toRole), []string{"subjects[0].name: Required value: "}},
		{"role binding, other role", roleBinding(toCluster), roleBinding(toRole), []string{"roleRef: Invalid value: cannot change roleRef"}},
		{"cluster role binding, other role", clusterRoleBinding(rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: "s"}), clusterRoleBinding(toCluster),
			[]string{"roleRef: Invalid value: cannot change roleRef"}},
		{"new bad label value", aggregate(labelIn("a b")), aggregate(labelIn("a")), []string{
			"aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values[0]: Invalid value: a valid label",
			"aggregationRule.clusterRoleSelectors[0]: Invalid value: invalid label selector.",
		}},
		{"not one of the kinds", &rbacv1.RoleList{}, &rbacv1.RoleList{}, []string{"<nil>: Internal error: unexpected type *v1.RoleList"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got := summaries(ValidateUpdate(tt.obj, tt.old))
			if len(got) != len(tt.want) {
				t.Fatalf("errors = %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				// The library's label texts vary; those of certplane are
				// compared in full.
				if len(got[i]) < len(want) || got[i][:len(want)] != want {
					t.Errorf("error %d = %q, want %q", i, got[i], want)
				}
			}
		})
	}
}
