// Package kind serves a kind of object from a description of it.
package kind

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Kind describes a kind with objects of type T and lists of type L. A field
// that is not set has no effect.
type Kind[T, L any] struct {
	// Version is the group and the version of T.
	Version schema.GroupVersion
	// Plural and Singular name the resource, in lower case.
	Plural, Singular string
	// ShortNames and Categories are other names for kubectl.
	ShortNames, Categories []string
	// Namespaced is true for namespaced kinds.
	Namespaced bool
	// PutCreates lets PUT create objects.
	PutCreates bool
	// NeedsResourceVersion refuses updates without a resource version.
	NeedsResourceVersion bool
	// ShowsDeleted makes a deletion return the deleted object.
	ShowsDeleted bool
	// OwnsNothing makes deletion ignore options about dependents.
	OwnsNothing bool
	// TTL is how long after its last write an object expires. Zero means never.
	TTL time.Duration

	// PrepareCreate removes fields that a client must not set.
	PrepareCreate func(obj *T)
	// Canonicalize converts a valid object to its stored form.
	Canonicalize func(obj *T)
	// Validate checks new objects.
	Validate func(obj *T) field.ErrorList
	// Check checks new objects and also updates, where old is not nil: it is
	// for rules that depend on the request.
	Check func(ctx context.Context, obj, old *T) field.ErrorList
	// Warn returns warnings about a valid write. old is nil at creation.
	Warn func(obj, old *T) []string
	// Update has the rules for updates of the whole object.
	Update[T]
	// Subresources are the parts, such as "status", that are updated separately.
	Subresources map[string]Update[T]
	// Gone reports, for an object that is being deleted and has no finalizers,
	// whether an update may complete the deletion.
	Gone func(obj *T) bool

	// Fields returns the fields for field selectors in addition to names.
	Fields func(obj *T) fields.Set
	// Table defines how kubectl shows objects. Default: name and age.
	Table Table[T]
}

// Update has the rules for updates through one endpoint.
type Update[T any] struct {
	// PrepareUpdate restores what cannot be changed here.
	PrepareUpdate func(obj, old *T)
	// ValidateUpdate checks what remains of the update.
	ValidateUpdate func(obj, old *T) field.ErrorList
	// Resets are the fields, such as "status", that PrepareUpdate restores as a
	// whole: clients that apply them do not own them.
	Resets []string
	// WriteOnly leaves PUT as the only verb of a subresource.
	WriteOnly bool
}

// Endpoints are the endpoints of a kind.
type Endpoints struct {
	// Store is the resource without its names for kubectl.
	Store *registry.Store
	// Storage maps paths to the resource and its subresources.
	Storage map[string]rest.Storage
}

// Open opens the store of k.
func (k Kind[T, L]) Open(options generic.RESTOptionsGetter) (Endpoints, error) {
	main := strategyOf(&k, k.Update)
	store := &registry.Store{
		NewFunc:                   newOf[T],
		NewListFunc:               newOf[L],
		DefaultQualifiedResource:  k.resource(k.Plural),
		SingularQualifiedResource: k.resource(k.Singular),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		ReturnDeletedObject:       k.ShowsDeleted,
		TableConvertor:            k.Table.orDefault(),
	}
	if k.TTL > 0 {
		seconds := uint64(k.TTL / time.Second)
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return seconds, nil }
	}
	if k.Gone != nil {
		store.ShouldDeleteDuringUpdate = func(_ context.Context, _ string, obj, _ runtime.Object) bool {
			return k.Gone(typed[T](obj))
		}
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: k.attributes}); err != nil {
		return Endpoints{}, fmt.Errorf("opening the store of %s: %w", k.Plural, err)
	}

	endpoints := Endpoints{Store: store, Storage: map[string]rest.Storage{
		k.Plural: resource{Store: store, shortNames: k.ShortNames, categories: k.Categories},
	}}
	for name, update := range k.Subresources {
		endpoint := newUpdater(store, strategyOf(&k, update))
		if update.WriteOnly {
			endpoints.Storage[k.Plural+"/"+name] = endpoint
		} else {
			endpoints.Storage[k.Plural+"/"+name] = Subresource{Part{endpoint}}
		}
	}
	return endpoints, nil
}

func (k *Kind[T, L]) resource(name string) schema.GroupResource {
	return schema.GroupResource{Group: k.Version.Group, Resource: name}
}

// attributes returns the values for label and field selectors.
func (k *Kind[T, L]) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	metadata, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the metadata of a %T: %w", obj, err)
	}
	selectable := fields.Set{"metadata.name": metadata.GetName()}
	if k.Namespaced {
		selectable["metadata.namespace"] = metadata.GetNamespace()
	}
	if k.Fields != nil {
		for name, value := range k.Fields(typed[T](obj)) {
			selectable[name] = value
		}
	}
	return metadata.GetLabels(), selectable, nil
}

// newOf returns an empty object. T is an object type, because all kinds of this
// server are.
func newOf[T any]() runtime.Object {
	return any(new(T)).(runtime.Object)
}

// typed converts obj to its type: the store contains no other type.
func typed[T any](obj runtime.Object) *T {
	return any(obj).(*T)
}
