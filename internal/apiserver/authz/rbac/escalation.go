package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// ConfirmNoEscalation returns an error that lists the missing rules unless u holds all of
// rules in namespace: users may grant only rights that they hold.
func ConfirmNoEscalation(ctx context.Context, resolver *Resolver, u user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	// An unresolved binding can only hide rights, it never adds any.
	held, err := resolver.Rules(ctx, u, namespace)
	covered, missing := validation.Covers(held, rules)
	if covered {
		return nil
	}
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(describeRules(missing), "\n"))
	if err != nil {
		msg += fmt.Sprintf("; resolution errors: [%v]", err)
	}
	return errors.New(msg)
}

// describeRules formats single-verb rules from validation.Covers, sorted. Those
// that differ only in their verb are on one line.
func describeRules(rules []rbacv1.PolicyRule) []string {
	byTarget := map[string]*rbacv1.PolicyRule{}
	for _, rule := range rules {
		target := rule
		target.Verbs = nil
		key := describeRule(target)
		if byTarget[key] == nil {
			byTarget[key] = &target
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains(byTarget[key].Verbs, verb) {
				byTarget[key].Verbs = append(byTarget[key].Verbs, verb)
			}
		}
	}
	var lines []string
	for _, rule := range byTarget {
		lines = append(lines, describeRule(*rule))
	}
	slices.Sort(lines)
	return lines
}

func describeRule(rule rbacv1.PolicyRule) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", rule.APIGroups},
		{"Resources", rule.Resources},
		{"NonResourceURLs", rule.NonResourceURLs},
		{"ResourceNames", rule.ResourceNames},
		{"Verbs", rule.Verbs},
	} {
		if len(field.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", field.name, field.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
