package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The operations that a rule can have. A deletion contains no object to mutate.
var (
	allOperations      = []v1.OperationType{v1.OperationAll, v1.Connect, v1.Create, v1.Delete, v1.Update}
	mutatingOperations = []v1.OperationType{v1.OperationAll, v1.Connect, v1.Create, v1.Update}
)

func validateSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// validateMatch checks what a policy or a binding applies to.
func validateMatch(path *field.Path, match *v1.MatchResources) field.ErrorList {
	if match == nil {
		return nil
	}
	errs := requiredOneOf(path.Child("matchPolicy"), match.MatchPolicy, v1.Equivalent, v1.Exact)
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", match.NamespaceSelector}, {"objectSelector", match.ObjectSelector}} {
		if s.selector == nil {
			errs = append(errs, field.Required(path.Child(s.name), ""))
			continue
		}
		errs = append(errs, validateSelector(path.Child(s.name), s.selector)...)
	}
	errs = append(errs, validateNamedRules(path.Child("resourceRules"), match.ResourceRules)...)
	return append(errs, validateNamedRules(path.Child("excludeResourceRules"), match.ExcludeResourceRules)...)
}

// validateConstraints checks what a policy applies to. This is required: the
// types of its expressions depend on it.
func validateConstraints(path *field.Path, match *v1.MatchResources) field.ErrorList {
	if match == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := validateMatch(path, match)
	if len(match.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("resourceRules"), ""))
	}
	return errs
}

// validateMutable reports operations without an object to mutate.
func validateMutable(path *field.Path, match *v1.MatchResources) field.ErrorList {
	if match == nil {
		return nil
	}
	var errs field.ErrorList
	for _, rule := range match.ResourceRules {
		for _, operation := range rule.Operations {
			errs = append(errs, oneOf(path.Child("resourceRules", "operations"), &operation, mutatingOperations...)...)
		}
	}
	return errs
}

func validateNamedRules(path *field.Path, rules []v1.NamedRuleWithOperations) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		names := path.Index(i).Child("resourceNames")
		for j, name := range rule.ResourceNames {
			for _, msg := range content.IsPathSegmentName(name) {
				errs = append(errs, field.Invalid(names.Index(j), name, msg))
			}
		}
		errs = append(errs, unique(names.Index, rule.ResourceNames, func(name string) string { return name })...)
		errs = append(errs, validateRule(path.Index(i), rule.RuleWithOperations)...)
	}
	return errs
}

func validateRules(path *field.Path, rules []v1.RuleWithOperations) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		errs = append(errs, validateRule(path.Index(i), rule)...)
	}
	return errs
}

func validateRule(path *field.Path, rule v1.RuleWithOperations) field.ErrorList {
	errs := validateList(path.Child("operations"), rule.Operations, "operations")
	for i, operation := range rule.Operations {
		errs = append(errs, oneOf(path.Child("operations").Index(i), &operation, allOperations...)...)
	}
	errs = append(errs, validateList(path.Child("apiGroups"), rule.APIGroups, "API groups")...)
	errs = append(errs, validateList(path.Child("apiVersions"), rule.APIVersions, "API versions")...)
	for i, version := range rule.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(path.Child("resources"), rule.Resources)...)
	return append(errs, oneOf(path.Child("scope"), rule.Scope, v1.AllScopes, v1.ClusterScope, v1.NamespacedScope)...)
}

// validateList checks a list in which "*" must be the only item.
func validateList[T ~string](path *field.Path, list []T, what string) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(path, list, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	}
	return nil
}

// validateResources checks that no item is covered by an earlier wildcard.
// Items are resource, resource/subresource, and both with "*".
func validateResources(path *field.Path, resources []string) field.ErrorList {
	if len(resources) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	anySubresourceOf, anyResourceWith := map[string]bool{}, map[string]bool{}
	plain := false
	for i, item := range resources {
		resource, subresource, hasSubresource := strings.Cut(item, "/")
		switch {
		case item == "":
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		case !hasSubresource:
			plain = plain || item != "*"
			continue
		case anySubresourceOf[resource]:
			errs = append(errs, field.Invalid(path.Index(i), item, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, item)))
		case anyResourceWith[subresource]:
			errs = append(errs, field.Invalid(path.Index(i), item, fmt.Sprintf("if '*/%s' is present, must not specify %s", subresource, item)))
		}
		anySubresourceOf[resource] = anySubresourceOf[resource] || subresource == "*"
		anyResourceWith[subresource] = anyResourceWith[subresource] || resource == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
