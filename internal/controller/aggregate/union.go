// Package aggregate keeps the rules of each aggregated ClusterRole equal to the union of
// the rules of the roles that it selects.
package aggregate

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Union returns the rules of those roles that target's aggregation rule
// selects. Each rule appears once, in the order of the selectors and of the
// roles' names, so that the result does not depend on the order of roles.
func Union(target *rbacv1.ClusterRole, roles []rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	byName := slices.SortedFunc(slices.Values(roles), func(a, b rbacv1.ClusterRole) int {
		return cmp.Compare(a.Name, b.Name)
	})
	union := []rbacv1.PolicyRule{}
	for i := range target.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&target.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("reading selector %d of ClusterRole %s: %w", i, target.Name, err)
		}
		for _, role := range byName {
			if role.Name != target.Name && selector.Matches(labels.Set(role.Labels)) {
				union = appendNew(union, role.Rules)
			}
		}
	}
	return union, nil
}

// appendNew appends those rules that union does not contain yet.
func appendNew(union, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, rule := range rules {
		if !slices.ContainsFunc(union, func(have rbacv1.PolicyRule) bool {
			return equality.Semantic.DeepEqual(have, rule)
		}) {
			union = append(union, rule)
		}
	}
	return union
}
