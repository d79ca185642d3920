package kind

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// resource serves a whole kind.
type resource struct {
	*registry.Store
	shortNames, categories []string
}

var (
	_ rest.StandardStorage    = resource{}
	_ rest.ShortNamesProvider = resource{}
	_ rest.CategoriesProvider = resource{}
)

// ShortNames implements rest.ShortNamesProvider.
func (r resource) ShortNames() []string { return r.shortNames }

// Categories implements rest.CategoriesProvider.
func (r resource) Categories() []string { return r.categories }

// updater updates whole objects by the rules of a part.
type updater struct{ store *registry.Store }

var (
	_ rest.Updater             = updater{}
	_ rest.ResetFieldsStrategy = updater{}
)

// New implements rest.Storage.
func (u updater) New() runtime.Object { return u.store.New() }

// Destroy does nothing: the resource closes the connection to the store.
func (updater) Destroy() {}

// Update implements rest.Updater. It never creates an object, not even by
// server-side apply.
func (u updater) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc,
	onUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return u.store.Update(ctx, name, info, onCreate, onUpdate, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (u updater) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return u.store.GetResetFields()
}

// subresource can also be read, and therefore patched.
type subresource struct{ updater }

var (
	_ rest.Patcher        = subresource{}
	_ rest.TableConvertor = subresource{}
)

// Get implements rest.Getter.
func (s subresource) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// ConvertToTable implements rest.TableConvertor.
func (s subresource) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, options)
}
