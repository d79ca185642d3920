package kind

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ResetIn returns the fields that an endpoint restores, the same in each
// version that it is served in. Field managers do not own them there.
func ResetIn(versions []schema.GroupVersion, paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := fieldpath.NewSet(paths...)
	reset := make(map[fieldpath.APIVersion]*fieldpath.Set, len(versions))
	for _, version := range versions {
		reset[fieldpath.APIVersion(version.String())] = fields
	}
	return reset
}
