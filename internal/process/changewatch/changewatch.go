// Package changewatch reports which objects of a resource change, without caching them.
//
// A cache would cost memory for every Secret, also for the many that have
// nothing to do with certificates. A listener that is notified of a change
// reads the one Secret that it needs.
package changewatch

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Listener is notified of changes, by one goroutine.
type Listener struct {
	// Changed is called when an object was created, changed or deleted, with the
	// resource version that it has since then.
	Changed func(object types.NamespacedName, version string)
	// Missed is called when any object can have changed: in the beginning, and
	// after an interruption.
	Missed func()
}

// Watcher follows the objects of a resource.
type Watcher struct{ objects metadata.ResourceInterface }

// Secrets is the resource of Secrets.
var Secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// New returns a watcher of a resource in one namespace; empty means all. The identity of
// cfg needs list and watch on it.
func New(cfg *rest.Config, resource schema.GroupVersionResource, namespace string) (*Watcher, error) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client for changes of %s: %w", resource.Resource, err)
	}
	return &Watcher{objects: client.Resource(resource).Namespace(namespace)}, nil
}

// Run notifies the listener of changes until ctx ends. It can run several times
// at once.
func (w *Watcher) Run(ctx context.Context, l Listener) {
	cache.NewReflectorWithOptions(source{w.objects}, &metav1.PartialObjectMetadata{}, nothing{l}, cache.ReflectorOptions{
		Name: "changewatch", TypeDescription: "metadata of objects",
	}).RunWithContext(ctx)
}

// source starts its watch at the current state.
type source struct{ objects metadata.ResourceInterface }

var _ cache.ListerWatcherWithContext = source{}

// ListWithContext lists one object only: the list is needed for its resource
// version, so that no change between it and the watch is lost.
func (s source) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	list, err := s.objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: list.ResourceVersion}}, nil
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (s source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.objects.Watch(ctx, options)
}

// List implements cache.ListerWatcher.
func (s source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (s source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported has the reflector begin with a list: a watch
// would begin with all objects.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

// nothing is a store that holds nothing.
type nothing struct{ Listener }

var _ cache.ReflectorStore = nothing{}

func (n nothing) tell(object any) error {
	if o, ok := object.(metav1.Object); ok {
		n.Changed(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetResourceVersion())
	}
	return nil
}

// Add implements cache.ReflectorStore.
func (n nothing) Add(object any) error { return n.tell(object) }

// Update implements cache.ReflectorStore.
func (n nothing) Update(object any) error { return n.tell(object) }

// Delete implements cache.ReflectorStore.
func (n nothing) Delete(object any) error { return n.tell(object) }

// Replace implements cache.ReflectorStore.
func (n nothing) Replace([]any, string) error {
	n.Missed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (nothing) Resync() error { return nil }
