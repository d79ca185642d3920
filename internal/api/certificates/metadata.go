package certificates

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMetadata applies the rules of cluster-scoped objects. Any name will
// do: the generic registry sees to it that it fits into a path.
func validateMetadata(metadata *metav1.ObjectMeta, fldPath *field.Path) field.ErrorList {
	anyName := func(string, bool) []string { return nil }
	errs := validation.ValidateObjectMeta(metadata, false, anyName, fldPath)
	for i, finalizer := range metadata.Finalizers {
		errs = append(errs, validateFinalizer(finalizer, fldPath.Child("finalizers").Index(i))...)
	}
	return errs
}

// validateFinalizer keeps finalizers without a domain for Kubernetes itself.
// The library knows only the syntax of a finalizer.
func validateFinalizer(finalizer string, fldPath *field.Path) field.ErrorList {
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
