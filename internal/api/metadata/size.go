package metadata

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSize returns an error for metadata at fldPath whose labels, annotations,
// finalizers and owner references have more than limit bytes together. If the stored
// metadata, old, already exceeds the limit, it may stay but must not grow; old is nil for a
// new object. It returns no error if the annotations alone are too large, which
// ValidateObjectMeta reports.
func ValidateSize(metadata, old *metav1.ObjectMeta, limit int, fldPath *field.Path) field.ErrorList {
	if apivalidation.ValidateAnnotationsSize(metadata.Annotations) != nil {
		return nil // already reported for the annotations
	}
	size := sizeOf(metadata)
	if size <= limit || old != nil && size <= sizeOf(old) {
		return nil
	}
	err := field.TooLong(fldPath, "", limit)
	err.Detail = "labels, annotations, finalizers and ownerReferences " + err.Detail + " together"
	return field.ErrorList{err}
}

func sizeOf(metadata *metav1.ObjectMeta) int {
	size := 0
	for _, pairs := range []map[string]string{metadata.Labels, metadata.Annotations} {
		for key, value := range pairs {
			size += len(key) + len(value)
		}
	}
	for _, finalizer := range metadata.Finalizers {
		size += len(finalizer)
	}
	for _, owner := range metadata.OwnerReferences {
		size += len(owner.APIVersion) + len(owner.Kind) + len(owner.Name) + len(owner.UID)
	}
	return size
}
