package metadata

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// IsCleanup reports whether obj differs from old only in what garbage
// collection changes. A collector must be able to update objects even if their
// content is no longer valid.
func IsCleanup(obj, old runtime.Object) bool {
	reverted := obj.DeepCopyObject()
	to, err := meta.Accessor(reverted)
	if err != nil {
		return false
	}
	from, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	to.SetOwnerReferences(from.GetOwnerReferences())
	to.SetFinalizers(from.GetFinalizers())
	to.SetSelfLink(from.GetSelfLink())
	to.SetManagedFields(from.GetManagedFields())
	return equality.Semantic.DeepEqual(reverted, old)
}
