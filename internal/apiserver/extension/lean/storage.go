package lean

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// openStore opens the store of a definition's objects.
func openStore(d *definition, typer runtime.ObjectTyper, options generic.RESTOptionsGetter) (*registry.Store, error) {
	accepted := d.crd.Status.AcceptedNames
	rules := strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, definition: d}
	store := &registry.Store{
		NewFunc: func() runtime.Object { return newObject(d.kind) },
		NewListFunc: func() runtime.Object {
			list := &List{}
			list.SetGroupVersionKind(d.listKind)
			return list
		},
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: d.attributes}
		},
		DefaultQualifiedResource:  schema.GroupResource{Group: d.kind.Group, Resource: accepted.Plural},
		SingularQualifiedResource: schema.GroupResource{Group: d.kind.Group, Resource: accepted.Singular},
		CreateStrategy:            rules,
		UpdateStrategy:            rules,
		DeleteStrategy:            rules,
		ResetFieldsStrategy:       rules,
		TableConvertor:            d.table,
	}
	err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: withCodec{options, d}, AttrFunc: d.attributes})
	if err != nil {
		return nil, fmt.Errorf("opening the store of %s: %w", d.crd.Name, err)
	}
	return store, nil
}

// statusEndpoint reads whole objects and writes their status.
type statusEndpoint struct{ store *registry.Store }

var (
	_ rest.Patcher             = statusEndpoint{}
	_ rest.ResetFieldsStrategy = statusEndpoint{}
)

func newStatusEndpoint(store *registry.Store) statusEndpoint {
	part := *store
	rules := statusStrategy{store.UpdateStrategy.(strategy)}
	part.UpdateStrategy = rules
	part.ResetFieldsStrategy = rules
	return statusEndpoint{&part}
}

// New implements rest.Storage.
func (s statusEndpoint) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the resource closes the store.
func (statusEndpoint) Destroy() {}

// Get implements rest.Getter.
func (s statusEndpoint) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates an object.
func (s statusEndpoint) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, onCreate rest.ValidateObjectFunc,
	onUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, onCreate, onUpdate, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s statusEndpoint) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}
