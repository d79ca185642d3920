package reviews

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	specPath     = field.NewPath("spec")
	metadataPath = field.NewPath("metadata")
	resourcePath = specPath.Child("resourceAttributes")
)

// ValidateSubjectAccessReview checks a review about any user.
func ValidateSubjectAccessReview(review *authorizationv1.SubjectAccessReview) field.ErrorList {
	errs := validateSpec(review.Spec)
	if !isEmpty(review.ObjectMeta) {
		errs = append(errs, field.Invalid(metadataPath, review.ObjectMeta, "must be empty"))
	}
	return errs
}

// ValidateSelfSubjectAccessReview checks a review about the requesting user.
func ValidateSelfSubjectAccessReview(review *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	errs := validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	if !isEmpty(review.ObjectMeta) {
		errs = append(errs, field.Invalid(metadataPath, review.ObjectMeta, "must be empty"))
	}
	return errs
}

// ValidateLocalSubjectAccessReview checks a review about any user in one
// namespace.
func ValidateLocalSubjectAccessReview(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSpec(review.Spec)
	withoutNamespace := review.ObjectMeta
	withoutNamespace.Namespace = ""
	if !isEmpty(withoutNamespace) {
		errs = append(errs, field.Invalid(metadataPath, review.ObjectMeta, "must be empty except for namespace"))
	}
	if r := review.Spec.ResourceAttributes; r != nil && r.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(resourcePath.Child("namespace"), r.Namespace, "must match metadata.namespace"))
	}
	if n := review.Spec.NonResourceAttributes; n != nil {
		errs = append(errs, field.Invalid(specPath.Child("nonResourceAttributes"), *n, "disallowed on this kind of request"))
	}
	return errs
}

// isEmpty ignores managed fields: the server itself fills them in.
func isEmpty(meta metav1.ObjectMeta) bool {
	meta.ManagedFields = nil
	return equality.Semantic.DeepEqual(meta, metav1.ObjectMeta{})
}

func validateSpec(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(specPath.Child("user"), spec.User, "at least one of user or group must be specified"))
	}
	return errs
}

func validateAttributes(resource *authorizationv1.ResourceAttributes, url *authorizationv1.NonResourceAttributes) field.ErrorList {
	var errs field.ErrorList
	if resource != nil && url != nil {
		errs = append(errs, field.Invalid(specPath.Child("nonResourceAttributes"), *url, "cannot be specified in combination with resourceAttributes"))
	}
	if resource == nil && url == nil {
		errs = append(errs, field.Invalid(resourcePath, nil, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if resource == nil {
		return errs
	}
	errs = append(errs, validateFieldSelector(resource.FieldSelector, resourcePath.Child("fieldSelector"))...)
	return append(errs, validateLabelSelector(resource.LabelSelector, resourcePath.Child("labelSelector"))...)
}

func validateFieldSelector(selector *authorizationv1.FieldSelectorAttributes, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	errs := validateSelectorForm(selector.RawSelector, len(selector.Requirements), path)
	// An operator from a newer client can only narrow the review, so the answer
	// without it is still safe.
	opts := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
	for i, requirement := range selector.Requirements {
		errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(requirement, opts, path.Child("requirements").Index(i))...)
	}
	return errs
}

func validateLabelSelector(selector *authorizationv1.LabelSelectorAttributes, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	errs := validateSelectorForm(selector.RawSelector, len(selector.Requirements), path)
	opts := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
	for i, requirement := range selector.Requirements {
		errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(requirement, opts, path.Child("requirements").Index(i))...)
	}
	return errs
}

// validateSelectorForm requires exactly one of the two forms of a selector.
func validateSelectorForm(raw string, requirements int, path *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}
