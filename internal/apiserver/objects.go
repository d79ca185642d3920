package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

type objectsKey struct{}

// withWish notes in the context of a request from this process whether its client
// wants objects instead of an encoding.
func withWish(r *http.Request) *http.Request {
	if !objectpass.Wanted(r.Header) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), objectsKey{}, true))
}

// sharedStore passes the objects of the watch cache themselves to the watches of this
// process. Otherwise the cache would copy each object for each watch, and each cache that
// keeps the objects would hold a second copy.
type sharedStore struct {
	storage.Interface
	key func(runtime.Object) (string, error)
	new func() runtime.Object
}

// newSharedStore returns store, if it has no watch cache.
func newSharedStore(store storage.Interface, key func(runtime.Object) (string, error), newFunc func() runtime.Object) storage.Interface {
	switch store.(type) {
	case awaitedCache, *cacher.CacheDelegator: // of an etcd in this process, or of another
	default:
		return store
	}
	if _, untyped := newFunc().(runtime.Unstructured); untyped {
		return store
	}
	return sharedStore{store, key, newFunc}
}

// Watch implements storage.Interface.
func (s sharedStore) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	watching, err := s.Interface.Watch(ctx, key, opts)
	if err != nil || ctx.Value(objectsKey{}) == nil {
		return watching, err
	}
	return mapEvents(watching, s.share), nil
}

// share returns the event with the object of the watch cache in a new struct that shares
// everything behind its pointers. If the cache already has a newer version, the object is a
// copy.
func (s sharedStore) share(event watch.Event) watch.Event {
	if event.Type != watch.Added && event.Type != watch.Modified {
		return event
	}
	obj, err := meta.Accessor(event.Object)
	if err != nil {
		return event
	}
	key, err := s.key(event.Object)
	if err != nil {
		return event
	}
	current := s.new()
	ctx := context.Background() // each call would add to the trace of the watch, which has no end
	if s.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, current) == nil {
		if now, err := meta.Accessor(current); err == nil && now.GetUID() == obj.GetUID() && now.GetResourceVersion() == obj.GetResourceVersion() {
			event.Object = current
			return event
		}
	}
	if cached, ok := event.Object.(runtime.CacheableObject); ok {
		event.Object = cached.GetObject()
	}
	return event
}
