package certificates

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxUserAnnotationBytes bounds the keys and values of a request together.
const maxUserAnnotationBytes = 256 << 10

// ValidateUserAnnotations returns the errors of annotations that the author of
// a pod sends to a signer: every key has a domain, values are free. All errors
// are for the map as a whole.
func ValidateUserAnnotations(fldPath *field.Path, annotations map[string]string) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		errs = append(errs, validateUserAnnotationKey(fldPath, key)...)
		size += len(key) + len(annotations[key])
	}
	if size > maxUserAnnotationBytes {
		errs = append(errs, field.TooLong(fldPath, "<annotations>", maxUserAnnotationBytes))
	}
	return errs
}

// validateUserAnnotationKey allows capital letters, as the annotations of every
// object do.
func validateUserAnnotationKey(fldPath *field.Path, key string) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	var errs field.ErrorList
	lower := strings.ToLower(key)
	for _, problem := range validation.IsQualifiedName(lower) {
		errs = append(errs, field.Invalid(fldPath, lower, problem))
	}
	if !strings.Contains(key, "/") {
		errs = append(errs, field.Invalid(fldPath, key, `must be a domain-prefixed key (such as "acme.io/foo")`))
	}
	return errs
}
