package kind

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/internal/process/stack"
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

// Create implements rest.Creater.
func (r resource) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return Create(ctx, r.Store, obj, validate, options)
}

// Create creates an object in a store.
func Create(ctx context.Context, store *registry.Store, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	stack.Grow() // the library calls this in a new goroutine
	return store.Create(ctx, obj, validate, options)
}

// ShortNames implements rest.ShortNamesProvider.
func (r resource) ShortNames() []string { return r.shortNames }

// Categories implements rest.CategoriesProvider.
func (r resource) Categories() []string { return r.categories }

// updater updates whole objects by the rules of a part.
type updater struct{ Store *registry.Store }

var (
	_ rest.Updater             = updater{}
	_ rest.ResetFieldsStrategy = updater{}
)

func newUpdater(store *registry.Store, strategy SubresourceStrategy) updater {
	part := *store
	part.UpdateStrategy = strategy
	part.ResetFieldsStrategy = strategy
	return updater{&part}
}

// New implements rest.Storage.
func (u updater) New() runtime.Object { return u.Store.New() }

// Destroy does nothing: the resource closes the connection to the store.
func (updater) Destroy() {}

// Update implements rest.Updater. It never creates an object, not even by
// server-side apply.
func (u updater) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc,
	onUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	stack.Grow() // the library calls this in a new goroutine
	return u.Store.Update(ctx, name, info, onCreate, onUpdate, false, options)
}

// Strategy returns the rules for the updates.
func (u updater) Strategy() rest.RESTUpdateStrategy { return u.Store.UpdateStrategy }

// GetResetFields implements rest.ResetFieldsStrategy.
func (u updater) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return u.Store.GetResetFields()
}

// SubresourceStrategy has the rules for updates of a part of objects.
type SubresourceStrategy interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// Part is a subresource that can be read, updated and patched, and has no table.
type Part struct{ updater }

var _ rest.Patcher = Part{}

// NewPart returns the subresource whose updates follow strategy. It shares the database of
// store, the store of the resource.
func NewPart(store *registry.Store, strategy SubresourceStrategy) Part {
	return Part{newUpdater(store, strategy)}
}

// Get implements rest.Getter.
func (p Part) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return p.Store.Get(ctx, name, options)
}

// Subresource is a Part with the table of the resource.
type Subresource struct{ Part }

var _ rest.TableConvertor = Subresource{}

// ConvertToTable implements rest.TableConvertor.
func (s Subresource) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.Store.ConvertToTable(ctx, obj, options)
}
