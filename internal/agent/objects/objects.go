// Package objects watches the objects of a kind in the newest version that an
// API serves.
package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// firstListTimeout is how long all reads together wait for the first list.
const firstListTimeout = 10 * time.Second

// ErrUnknown reports that the server's objects are not known yet. Objects may exist.
var ErrUnknown = errors.New("not known yet")

// Kind says what to watch.
type Kind[T any] struct {
	// Resource is the name in URLs. Versions are the versions that T can be
	// read from and written as, the preferred one first.
	Resource string
	Versions []schema.GroupVersion
	// FieldSelector limits what is watched; empty selects all objects.
	FieldSelector string
	// Changed is called with each object that is added, changed or deleted. It
	// must return quickly.
	Changed func(*T)
}

// Follower holds a copy of all objects of a kind. It starts with the first read. If the API
// does not serve the kind, each read asks again, so that an update of the server is enough.
// Follower is safe for concurrent use.
type Follower[T any] struct {
	// run is the context of the watch. It outlives the calls that start the
	// watch.
	run       context.Context
	kind      Kind[T]
	discovery discovery.DiscoveryInterface
	dynamic   dynamic.Interface

	mu      sync.Mutex
	current *following // nil before the first read and after its version is gone
}

type following struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	deadline time.Time // of reads that wait for the first list
	stop     context.CancelFunc
}

// New returns a follower whose watch ends with ctx.
func New[T any](ctx context.Context, kind Kind[T], discovery discovery.DiscoveryInterface, dynamic dynamic.Interface) *Follower[T] {
	return &Follower[T]{run: ctx, kind: kind, discovery: discovery, dynamic: dynamic}
}

// All returns all objects, which must not be changed. It waits for the first
// list for a limited time; after that its error matches ErrUnknown.
func (f *Follower[T]) All(ctx context.Context) ([]*T, error) {
	following, err := f.synced(ctx)
	if err != nil {
		return nil, err
	}
	var all []*T
	for _, object := range following.informer.GetStore().List() {
		if typed, ok := object.(*objectWithMeta[T]); ok {
			all = append(all, typed.object)
		}
	}
	return all, nil
}

// Known returns the objects that are known now, as All does, without waiting: none before the
// first list.
func (f *Follower[T]) Known(ctx context.Context) ([]*T, error) {
	following, err := f.follow()
	if err != nil || !following.informer.HasSynced() {
		return nil, err
	}
	return f.All(ctx)
}

// Get returns one object, which must not be changed, or nil if the local copy
// does not have it.
func (f *Follower[T]) Get(ctx context.Context, namespace, name string) (*T, error) {
	following, err := f.synced(ctx)
	if err != nil {
		return nil, err
	}
	object, found, err := following.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !found {
		return nil, err
	}
	typed, ok := object.(*objectWithMeta[T])
	if !ok {
		return nil, fmt.Errorf("following %s: unexpected %T", f.kind.Resource, object)
	}
	return typed.object, nil
}

// Find asks the server itself for one object. It returns nil if the object does
// not exist. It uses a list, because a client that may list only some objects
// may not always get one.
func (f *Follower[T]) Find(ctx context.Context, namespace, name string) (*T, error) {
	following, err := f.follow()
	if err != nil {
		return nil, err
	}
	selector := "metadata.name=" + name
	if f.kind.FieldSelector != "" {
		selector += "," + f.kind.FieldSelector
	}
	list, err := f.dynamic.Resource(following.resource).Namespace(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return decode[T](&list.Items[0])
}

// Create sends a new object.
func (f *Follower[T]) Create(ctx context.Context, namespace string, kind string, object *T) error {
	following, err := f.follow()
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encoding a %s: %w", kind, err)
	}
	encoded := &unstructured.Unstructured{Object: content}
	encoded.SetGroupVersionKind(following.resource.GroupVersion().WithKind(kind))
	_, err = f.dynamic.Resource(following.resource).Namespace(namespace).Create(ctx, encoded, metav1.CreateOptions{})
	return err
}

func (f *Follower[T]) synced(ctx context.Context) (*following, error) {
	following, err := f.follow()
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithDeadline(ctx, following.deadline)
	defer cancel()
	if !following.informer.HasSynced() && !cache.WaitForCacheSync(wait.Done(), following.informer.HasSynced) {
		return nil, fmt.Errorf("the server's %s are %w", f.kind.Resource, ErrUnknown)
	}
	return following, nil
}

// follow starts the watch, unless it has been started.
func (f *Follower[T]) follow() (*following, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		return f.current, nil
	}
	resource, err := f.newest()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(f.run)
	informer := dynamicinformer.NewFilteredDynamicInformer(f.dynamic, resource, metav1.NamespaceAll, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = f.kind.FieldSelector
	}).Informer()
	following := &following{resource: resource, informer: informer, deadline: time.Now().Add(firstListTimeout), stop: stop}
	if err := f.prepare(following); err != nil {
		stop()
		return nil, fmt.Errorf("following %s: %w", f.kind.Resource, err)
	}
	f.current = following
	go informer.RunWithContext(ctx)
	return following, nil
}

func (f *Follower[T]) prepare(following *following) error {
	informer := following.informer
	if err := informer.SetTransform(transform[T]); err != nil {
		return err
	}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) { // this version is no longer served
			f.forget(following)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: f.notifyChanged, UpdateFunc: func(_, object any) { f.notifyChanged(object) }, DeleteFunc: f.notifyChanged,
	})
	return err
}

// notifyChanged calls Changed with an object, or with the last known state of
// an object whose deletion was missed.
func (f *Follower[T]) notifyChanged(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if typed, ok := object.(*objectWithMeta[T]); ok && f.kind.Changed != nil {
		f.kind.Changed(typed.object)
	}
}

func (f *Follower[T]) forget(following *following) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == following {
		f.current = nil
	}
	following.stop()
}

// newest returns the newest version that the server serves. It ignores errors
// of discovering other parts of the API.
func (f *Follower[T]) newest() (schema.GroupVersionResource, error) {
	var failed error
	for _, version := range f.kind.Versions {
		resources, err := f.discovery.ServerResourcesForGroupVersion(version.String())
		if err != nil && !apierrors.IsNotFound(err) {
			failed = errors.Join(failed, err)
		}
		if resources != nil && hasResource(resources, f.kind.Resource) {
			return version.WithResource(f.kind.Resource), nil
		}
	}
	if failed != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("asking the server for its version of %s: %w", f.kind.Resource, failed)
	}
	return schema.GroupVersionResource{}, fmt.Errorf("the server does not have %s in any of the versions %s", f.kind.Resource, f.kind.Versions)
}

func hasResource(resources *metav1.APIResourceList, name string) bool {
	return slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
}

// objectWithMeta is a typed object with its metadata, which informers need.
type objectWithMeta[T any] struct {
	metav1.Object
	object *T
}

// transform keeps the fields of an object that T has.
func transform[T any](object any) (any, error) {
	encoded, ok := object.(*unstructured.Unstructured)
	if !ok { // transformed already, or a tombstone
		return object, nil
	}
	typed, err := decode[T](encoded)
	if err != nil {
		return nil, err
	}
	meta := &metav1.ObjectMeta{Namespace: encoded.GetNamespace(), Name: encoded.GetName(), ResourceVersion: encoded.GetResourceVersion(), UID: encoded.GetUID()}
	return &objectWithMeta[T]{Object: meta, object: typed}, nil
}

func decode[T any](encoded *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(encoded.Object, typed); err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", encoded.GetKind(), encoded.GetName(), err)
	}
	return typed, nil
}
