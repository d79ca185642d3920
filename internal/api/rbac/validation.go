package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scope is where an object applies: some rights can be granted only in one of
// the two scopes, or must be written in full.
type scope bool

const (
	inCluster   scope = false
	inNamespace scope = true
)

var (
	roleRefPath  = field.NewPath("roleRef")
	metadataPath = field.NewPath("metadata")
)

// Validate checks a new object of one of the four kinds.
func Validate(obj runtime.Object) field.ErrorList {
	switch obj := obj.(type) {
	case *rbacv1.Role:
		return validateRole(obj)
	case *rbacv1.ClusterRole:
		return validateClusterRole(obj)
	case *rbacv1.RoleBinding:
		return validateRoleBinding(obj)
	case *rbacv1.ClusterRoleBinding:
		return validateClusterRoleBinding(obj)
	}
	return unexpected(obj)
}

// ValidateUpdate checks an object of one of the four kinds that replaces old.
func ValidateUpdate(obj, old runtime.Object) field.ErrorList {
	switch obj := obj.(type) {
	case *rbacv1.Role:
		old := old.(*rbacv1.Role)
		return append(validateRole(obj), validateMetaUpdate(obj, old)...)
	case *rbacv1.ClusterRole:
		old := old.(*rbacv1.ClusterRole)
		return append(validateClusterRole(obj), validateMetaUpdate(obj, old)...)
	case *rbacv1.RoleBinding:
		old := old.(*rbacv1.RoleBinding)
		errs := append(validateRoleBinding(obj), validateMetaUpdate(obj, old)...)
		return append(errs, validateRoleRefUpdate(obj.RoleRef, old.RoleRef)...)
	case *rbacv1.ClusterRoleBinding:
		old := old.(*rbacv1.ClusterRoleBinding)
		errs := append(validateClusterRoleBinding(obj), validateMetaUpdate(obj, old)...)
		return append(errs, validateRoleRefUpdate(obj.RoleRef, old.RoleRef)...)
	}
	return unexpected(obj)
}

func unexpected(obj runtime.Object) field.ErrorList {
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("unexpected type %T", obj))}
}

func validateMeta(obj metav1.Object, in scope) field.ErrorList {
	return validation.ValidateObjectMetaAccessor(obj, bool(in), validateName, metadataPath)
}

func validateMetaUpdate(obj, old metav1.Object) field.ErrorList {
	return validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath)
}

// validateName allows every name that fits into one segment of a URL path,
// because names such as system:node are not DNS names.
func validateName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

func validateRole(role *rbacv1.Role) field.ErrorList {
	return append(validateMeta(role, inNamespace), validateRules(role.Rules, inNamespace)...)
}

func validateClusterRole(role *rbacv1.ClusterRole) field.ErrorList {
	errs := append(validateMeta(role, inCluster), validateRules(role.Rules, inCluster)...)
	if role.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		return append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector := &role.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), *selector, "invalid label selector."))
		}
	}
	return errs
}

func validateRules(rules []rbacv1.PolicyRule, in scope) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		errs = append(errs, validateRule(rule, in, field.NewPath("rules").Index(i))...)
	}
	return errs
}

func validateRule(rule rbacv1.PolicyRule, in scope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(rule.NonResourceURLs) > 0 {
		return append(errs, validateURLRule(rule, in, path.Child("nonResourceURLs"))...)
	}
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

func validateURLRule(rule rbacv1.PolicyRule, in scope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if in == inNamespace {
		errs = append(errs, field.Invalid(path, rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
	}
	if len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0 {
		errs = append(errs, field.Invalid(path, rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
	}
	return errs
}

func validateRoleBinding(binding *rbacv1.RoleBinding) field.ErrorList {
	errs := append(validateMeta(binding, inNamespace), ValidateRoleRef(binding.RoleRef, "Role", "ClusterRole")...)
	return append(errs, validateSubjects(binding.Subjects, inNamespace)...)
}

func validateClusterRoleBinding(binding *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := append(validateMeta(binding, inCluster), ValidateRoleRef(binding.RoleRef, "ClusterRole")...)
	return append(errs, validateSubjects(binding.Subjects, inCluster)...)
}

// ValidateRoleRef checks a binding's reference to a role of one of kinds.
func ValidateRoleRef(ref rbacv1.RoleRef, kinds ...string) field.ErrorList {
	var errs field.ErrorList
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(roleRefPath.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	if !slices.Contains(kinds, ref.Kind) {
		errs = append(errs, field.NotSupported(roleRefPath.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		return append(errs, field.Required(roleRefPath.Child("name"), ""))
	}
	for _, reason := range validateName(ref.Name, false) {
		errs = append(errs, field.Invalid(roleRefPath.Child("name"), ref.Name, reason))
	}
	return errs
}

// validateRoleRefUpdate refuses to change a binding's role: a user who may edit
// the subjects must not be able to choose what is granted to them.
func validateRoleRefUpdate(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(roleRefPath, ref, "cannot change roleRef")}
}

func validateSubjects(subjects []rbacv1.Subject, in scope) field.ErrorList {
	var errs field.ErrorList
	for i, subject := range subjects {
		errs = append(errs, validateSubject(subject, in, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func validateSubject(subject rbacv1.Subject, in scope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if subject.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		errs = append(errs, validateServiceAccount(subject, in, path)...)
	case rbacv1.UserKind, rbacv1.GroupKind:
		if subject.APIGroup != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), subject.APIGroup, []string{rbacv1.GroupName}))
		}
	default:
		known := []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}
		errs = append(errs, field.NotSupported(path.Child("kind"), subject.Kind, known))
	}
	return errs
}

func validateServiceAccount(subject rbacv1.Subject, in scope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if subject.Name != "" {
		for _, reason := range validation.ValidateServiceAccountName(subject.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), subject.Name, reason))
		}
	}
	if subject.APIGroup != "" {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), subject.APIGroup, []string{""}))
	}
	if in == inCluster && subject.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	return errs
}
