// Package metadata has the rules for the metadata of objects of all kinds.
package metadata

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AnyName is for kinds that have no rule for their names: the generic registry
// makes sure that every name fits into a path.
func AnyName(string, bool) []string { return nil }

// Validate returns the errors of the metadata at fldPath.
func Validate(metadata *metav1.ObjectMeta, namespaced bool, name validation.ValidateNameFunc, fldPath *field.Path) field.ErrorList {
	errs := validation.ValidateObjectMeta(metadata, namespaced, name, fldPath)
	for i, finalizer := range metadata.Finalizers {
		errs = append(errs, validateStandardFinalizer(finalizer, fldPath.Child("finalizers").Index(i))...)
	}
	return errs
}

// ValidateFinalizer returns the errors of a finalizer outside of metadata,
// where its syntax has not been checked yet.
func ValidateFinalizer(finalizer string, fldPath *field.Path) field.ErrorList {
	errs := validation.ValidateFinalizerName(finalizer, fldPath)
	return append(errs, validateStandardFinalizer(finalizer, fldPath)...)
}

// validateStandardFinalizer reserves finalizers without a domain for Kubernetes
// itself. The library checks only the syntax of a finalizer.
func validateStandardFinalizer(finalizer string, fldPath *field.Path) field.ErrorList {
	standard := []string{
		string(corev1.FinalizerKubernetes),
		metav1.FinalizerOrphanDependents,
		metav1.FinalizerDeleteDependents,
	}
	if strings.Contains(finalizer, "/") || slices.Contains(standard, finalizer) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, finalizer, "name is neither a standard finalizer name nor is it fully qualified")}
}
