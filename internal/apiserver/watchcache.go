package apiserver

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/certplane/certplane/internal/inprocess/dedupe"
)

// cachedStore is the store of a watch cache. The cache keeps every version of an object for
// more than a minute, decoded from the store. cachedStore lets each version share memory
// with the version before, which the cache holds, and with the last object of the kind that
// changed. The objects of a watch cache are never written to.
type cachedStore struct {
	storage.Interface
	keyFunc func(runtime.Object) (string, error)
	newFunc func() runtime.Object
	cache   atomic.Pointer[cacher.Cacher]
}

// Watch implements storage.Interface.
func (s *cachedStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	changes, err := s.Interface.Watch(ctx, key, options)
	if err != nil {
		return nil, err
	}
	var last runtime.Object
	return mapEvents(changes, func(event watch.Event) watch.Event {
		if event.Type == watch.Added || event.Type == watch.Modified {
			object := unwrapped(event.Object)
			dedupe.Share(object, s.previous(object), last)
			last = object
		}
		return event
	}), nil
}

// previous returns the version of object that the cache has, or nil.
func (s *cachedStore) previous(object runtime.Object) runtime.Object {
	cache := s.cache.Load()
	if cache == nil {
		return nil
	}
	key, err := s.keyFunc(object)
	if err != nil {
		return nil
	}
	before := s.newFunc()
	if cache.Get(context.Background(), key, storage.GetOptions{ResourceVersion: "0"}, before) != nil {
		return nil
	}
	return before
}

// unwrapped returns the object of an event, which can come with a time.
func unwrapped(object runtime.Object) runtime.Object {
	if timed, ok := object.(storage.WatchEventWithRecordTime); ok {
		return timed.Unwrap()
	}
	return object
}
