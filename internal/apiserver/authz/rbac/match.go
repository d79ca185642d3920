package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Allows reports whether rule permits the request.
func Allows(rule *rbacv1.PolicyRule, request authorizer.Attributes) bool {
	if !includes(rule.Verbs, rbacv1.VerbAll, request.GetVerb()) {
		return false
	}
	if !request.IsResourceRequest() {
		return allowsURL(rule, request.GetPath())
	}
	return includes(rule.APIGroups, rbacv1.APIGroupAll, request.GetAPIGroup()) &&
		allowsResource(rule, request.GetResource(), request.GetSubresource()) &&
		allowsName(rule, request.GetName())
}

func includes(list []string, everything, want string) bool {
	return slices.ContainsFunc(list, func(have string) bool { return have == everything || have == want })
}

// allowsResource matches "pods", "pods/log", "*/log" and "*". "pods/*" has no
// special meaning.
func allowsResource(rule *rbacv1.PolicyRule, resource, subresource string) bool {
	if subresource == "" {
		return includes(rule.Resources, rbacv1.ResourceAll, resource)
	}
	exact, anyResource := resource+"/"+subresource, "*/"+subresource
	return slices.ContainsFunc(rule.Resources, func(have string) bool {
		return have == rbacv1.ResourceAll || have == exact || have == anyResource
	})
}

func allowsName(rule *rbacv1.PolicyRule, name string) bool {
	return len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name)
}

// allowsURL matches "/metrics", "/metrics/*" and "*": a star stands for any
// ending.
func allowsURL(rule *rbacv1.PolicyRule, path string) bool {
	return slices.ContainsFunc(rule.NonResourceURLs, func(have string) bool {
		if have == path {
			return true
		}
		return strings.HasSuffix(have, "*") && strings.HasPrefix(path, strings.TrimRight(have, "*"))
	})
}
