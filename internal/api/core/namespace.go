package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

var finalizersPath = field.NewPath("spec", "finalizers")

// ValidateNamespace returns the errors of a new namespace.
func ValidateNamespace(namespace *corev1.Namespace) field.ErrorList {
	errs := metadata.Validate(&namespace.ObjectMeta, false, validation.NameIsDNSLabel, metadataPath)
	for _, finalizer := range namespace.Spec.Finalizers {
		errs = append(errs, metadata.ValidateFinalizer(string(finalizer), finalizersPath)...)
	}
	return errs
}

// ValidateNamespaceUpdate returns the errors of replacing old by namespace.
func ValidateNamespaceUpdate(namespace, old *corev1.Namespace) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&namespace.ObjectMeta, &old.ObjectMeta, metadataPath)
	return append(errs, ValidateNamespace(namespace)...)
}

// ValidateNamespaceStatusUpdate returns the errors of replacing old by
// namespace through /status: only a deletion terminates a namespace.
func ValidateNamespaceStatusUpdate(namespace, old *corev1.Namespace) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&namespace.ObjectMeta, &old.ObjectMeta, metadataPath)
	// Kubernetes uses this spelling of the field.
	phase, phasePath := namespace.Status.Phase, field.NewPath("status", "Phase")
	switch {
	case namespace.DeletionTimestamp.IsZero() && phase != corev1.NamespaceActive:
		errs = append(errs, field.Invalid(phasePath, phase, "may only be 'Active' if `deletionTimestamp` is empty"))
	case !namespace.DeletionTimestamp.IsZero() && phase != corev1.NamespaceTerminating:
		errs = append(errs, field.Invalid(phasePath, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
	}
	return errs
}

// ValidateNamespaceFinalizeUpdate returns the errors of replacing old by
// namespace through /finalize.
func ValidateNamespaceFinalizeUpdate(namespace, old *corev1.Namespace) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&namespace.ObjectMeta, &old.ObjectMeta, metadataPath)
	for i, finalizer := range namespace.Spec.Finalizers {
		errs = append(errs, metadata.ValidateFinalizer(string(finalizer), finalizersPath.Index(i))...)
	}
	return errs
}
