package kind

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ResetIn returns what an endpoint puts back as it was, the same fields in each
// version that it is served in: field managers do not come to own them there.
func ResetIn(versions []schema.GroupVersion, paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := fieldpath.NewSet(paths...)
	reset := make(map[fieldpath.APIVersion]*fieldpath.Set, len(versions))
	for _, version := range versions {
		reset[fieldpath.APIVersion(version.String())] = fields
	}
	return reset
}
