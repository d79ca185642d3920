package aggregate

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func allow(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{resource}}
}

func labelled(name string, labels map[string]string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rules}
}

// gathering returns a role that aggregates by each of labels.
func gathering(name string, labels ...map[string]string) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, AggregationRule: &rbacv1.AggregationRule{}}
	for _, set := range labels {
		role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: set})
	}
	return role
}

var (
	toA = map[string]string{"to": "a"}
	toB = map[string]string{"to": "b"}
)

func TestUnion(t *testing.T) {
	getPods, getNodes, getSecrets := allow("get", "pods"), allow("get", "nodes"), allow("get", "secrets")
	tests := []struct {
		reason string
		target *rbacv1.ClusterRole
		roles  []rbacv1.ClusterRole
		want   []rbacv1.PolicyRule
	}{
		{"nothing matches", gathering("t", toA), []rbacv1.ClusterRole{labelled("x", toB, getPods)}, []rbacv1.PolicyRule{}},
		{"in the order of names", gathering("t", toA), []rbacv1.ClusterRole{labelled("y", toA, getPods), labelled("x", toA, getNodes)},
			[]rbacv1.PolicyRule{getNodes, getPods}},
		{"selectors come before names", gathering("t", toB, toA), []rbacv1.ClusterRole{labelled("x", toA, getPods), labelled("y", toB, getNodes)},
			[]rbacv1.PolicyRule{getNodes, getPods}},
		{"equal rules count once", gathering("t", toA), []rbacv1.ClusterRole{labelled("x", toA, getPods, getNodes), labelled("y", toA, getNodes, getSecrets)},
			[]rbacv1.PolicyRule{getPods, getNodes, getSecrets}},
		{"a role that two selectors match counts once", gathering("t", toA, toA), []rbacv1.ClusterRole{labelled("x", toA, getPods)},
			[]rbacv1.PolicyRule{getPods}},
		{"a role does not gather itself", gathering("t", toA), []rbacv1.ClusterRole{labelled("t", toA, getSecrets), labelled("x", toA, getPods)},
			[]rbacv1.PolicyRule{getPods}},
		{"an empty selector matches all", gathering("t", nil), []rbacv1.ClusterRole{labelled("x", toA, getPods), labelled("y", nil, getNodes)},
			[]rbacv1.PolicyRule{getPods, getNodes}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := Union(tt.target, tt.roles)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnionOfBadSelector(t *testing.T) {
	target := gathering("t", nil)
	target.AggregationRule.ClusterRoleSelectors[0].MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}
	if _, err := Union(target, nil); err == nil {
		t.Error("no error about the operator")
	}
}

func TestReconcile(t *testing.T) {
	stale := gathering("t", toA)
	stale.Rules = []rbacv1.PolicyRule{allow("delete", "secrets")}
	current := gathering("t", toA)
	current.Rules = []rbacv1.PolicyRule{allow("get", "pods")}
	x := labelled("x", toA, allow("get", "pods"))
	plain := labelled("t", nil, allow("list", "pods"))
	conflict := apierrors.NewConflict(rbacv1.Resource("clusterroles"), "t", errors.New("changed"))
	forbidden := apierrors.NewForbidden(rbacv1.Resource("clusterroles"), "t", errors.New("no"))

	tests := []struct {
		reason     string
		roles      []client.Object
		updateErr  error
		want       []rbacv1.PolicyRule
		wantWrites int
		wantErr    bool
	}{
		{"new rules", []client.Object{gathering("t", toA), &x}, nil, []rbacv1.PolicyRule{allow("get", "pods")}, 1, false},
		{"rules written by hand are replaced", []client.Object{stale, &x}, nil, []rbacv1.PolicyRule{allow("get", "pods")}, 1, false},
		{"the last rule goes too", []client.Object{stale}, nil, nil, 1, false},
		{"nothing to do", []client.Object{current, &x}, nil, []rbacv1.PolicyRule{allow("get", "pods")}, 0, false},
		{"nothing to gather, nothing to do", []client.Object{gathering("t", toA)}, nil, nil, 0, false},
		{"not an aggregated role", []client.Object{&plain, &x}, nil, []rbacv1.PolicyRule{allow("list", "pods")}, 0, false},
		{"deleted", []client.Object{&x}, nil, nil, 0, false},
		{"a conflict is quiet: the event about it follows", []client.Object{stale, &x}, conflict, stale.Rules, 1, false},
		{"other errors are retried", []client.Object{stale, &x}, forbidden, stale.Rules, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			writes := 0
			c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(tt.roles...).
				WithInterceptorFuncs(interceptor.Funcs{
					Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
						writes++
						if tt.updateErr != nil {
							return tt.updateErr
						}
						return c.Update(ctx, obj, opts...)
					},
				}).Build()
			r := &reconciler{cache: c, client: c}
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "t"}})
			if (err != nil) != tt.wantErr {
				t.Errorf("Reconcile = %v, want an error: %v", err, tt.wantErr)
			}
			if writes != tt.wantWrites {
				t.Errorf("writes = %d, want %d", writes, tt.wantWrites)
			}
			var got rbacv1.ClusterRole
			if err := client.IgnoreNotFound(c.Get(t.Context(), types.NamespacedName{Name: "t"}, &got)); err != nil {
				t.Fatal(err)
			}
			if len(got.Rules) != 0 || len(tt.want) != 0 {
				if diff := cmp.Diff(tt.want, got.Rules); diff != "" {
					t.Errorf("rules (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A role concerns only the aggregated roles that select it, however many others exist.
func TestAggregated(t *testing.T) {
	x, plain := labelled("x", toA), labelled("plain", nil)
	admin := gathering("admin", toB, toA)
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(admin, gathering("edit", toB), &x, &plain).
		WithIndex(&rbacv1.ClusterRole{}, byRule, hasRule).Build()
	for _, tt := range []struct {
		changed client.Object
		want    []reconcile.Request
	}{
		{&x, []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "admin"}}}},
		{admin, []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "admin"}}}},
		{&plain, nil},
	} {
		got := (&reconciler{cache: c}).aggregated(t.Context(), tt.changed)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("requests for %s (-want +got):\n%s", tt.changed.GetName(), diff)
		}
	}
}
