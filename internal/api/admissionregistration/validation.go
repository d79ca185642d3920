package admissionregistration

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
)

// Validate checks a new object of one of the six kinds.
func Validate(obj runtime.Object) field.ErrorList {
	return append(validate(obj, nil), validateNotReserved(obj)...)
}

// ValidateUpdate checks an object of one of the six kinds that replaces old.
// Expressions that old has were valid when they were written, and are checked
// with that version of the language.
func ValidateUpdate(obj, old runtime.Object) field.ErrorList {
	errs := validate(obj, expressionsOf(old))
	object, ok := obj.(metav1.Object)
	if !ok {
		return unexpected(obj)
	}
	return append(errs, validation.ValidateObjectMetaAccessorUpdate(object, old.(metav1.Object), metadataPath)...)
}

func validate(obj runtime.Object, known expressions) field.ErrorList {
	object, ok := obj.(metav1.Object)
	if !ok {
		return unexpected(obj)
	}
	errs := validation.ValidateObjectMetaAccessor(object, false, validation.NameIsDNSSubdomain, metadataPath)
	switch obj := obj.(type) {
	case *v1.MutatingWebhookConfiguration:
		return append(errs, validateHooks(mutatingHooks(obj), known)...)
	case *v1.ValidatingWebhookConfiguration:
		return append(errs, validateHooks(validatingHooks(obj), known)...)
	case *v1.MutatingAdmissionPolicy:
		return append(errs, validateMutatingPolicy(&obj.Spec, known)...)
	case *v1.ValidatingAdmissionPolicy:
		return append(errs, validateValidatingPolicy(obj.Name, &obj.Spec, known)...)
	case *v1.MutatingAdmissionPolicyBinding:
		return append(errs, validateMutatingBinding(&obj.Spec)...)
	case *v1.ValidatingAdmissionPolicyBinding:
		return append(errs, validateValidatingBinding(&obj.Spec)...)
	}
	return unexpected(obj)
}

// validateNotReserved refuses names that are reserved for configuration files
// (KEP-5793).
func validateNotReserved(obj runtime.Object) field.ErrorList {
	const reserved = ".static.k8s.io"
	object, ok := obj.(metav1.Object)
	if !ok || !strings.HasSuffix(object.GetName(), reserved) {
		return nil
	}
	return field.ErrorList{field.Invalid(metadataPath.Child("name"), object.GetName(),
		fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", reserved))}
}

func unexpected(obj runtime.Object) field.ErrorList {
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("unexpected type %T", obj))}
}

// oneOf checks an optional field that has a fixed set of values.
func oneOf[T ~string](path *field.Path, value *T, supported ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	for _, s := range supported {
		if *value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, *value, supported)}
}

// requiredOneOf is oneOf for a field that must be set.
func requiredOneOf[T ~string](path *field.Path, value *T, supported ...T) field.ErrorList {
	if value == nil || *value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return oneOf(path, value, supported...)
}

// unique reports each value that is listed twice.
func unique[T any](path func(i int) *field.Path, values []T, key func(T) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, value := range values {
		k := key(value)
		if k != "" && seen[k] {
			errs = append(errs, field.Duplicate(path(i), k))
		}
		seen[k] = true
	}
	return errs
}
