package apiserver

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// currentStore reads single objects from the watch cache, and never an older version
// than the store has: no other process writes to the store, and a read waits until the
// cache has the last version of the resource that this process has written. It needs
// neither a read of etcd nor the decoding of what that has. Kubernetes does the same
// for lists (KEP-2340), with a question to etcd.
type currentStore struct {
	storage.Interface
	written *lastWritten
}

// lastWritten is the highest resource version of a resource that the process has
// written; 0 if none.
type lastWritten struct{ atomic.Uint64 }

func (w *lastWritten) note(object runtime.Object) {
	o, err := meta.Accessor(object)
	if err != nil {
		return // an object without metadata is not read by its version
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	for {
		before := w.Load()
		if version <= before || w.CompareAndSwap(before, version) {
			return
		}
	}
}

// currentStores makes the currentStores of a process: the versions of a kind have
// stores of their own for the same objects.
type currentStores struct{ written sync.Map }

func (c *currentStores) wrap(resource schema.GroupResource, store storage.Interface) storage.Interface {
	written, _ := c.written.LoadOrStore(resource, &lastWritten{})
	return currentStore{store, written.(*lastWritten)}
}

// Get implements storage.Interface.
func (s currentStore) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	if options.ResourceVersion == "" && isRead(ctx) {
		least := options
		least.ResourceVersion = strconv.FormatUint(s.written.Load(), 10)
		if err := s.Interface.Get(ctx, key, least, out); !storage.IsTooLargeResourceVersion(err) {
			return err
		} // else the cache is seconds behind
	}
	return s.Interface.Get(ctx, key, options, out)
}

// isRead reports whether a request reads one object. Parts of what the cache returns
// belong to the cache: others might write to them.
func isRead(ctx context.Context) bool {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	return ok && info.IsResourceRequest && info.Verb == "get"
}

// Create implements storage.Interface.
func (s currentStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, obj, out, ttl)
	if err == nil {
		s.written.note(out)
	}
	return err
}

// GuaranteedUpdate implements storage.Interface.
func (s currentStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, cached)
	if err == nil {
		s.written.note(destination)
	}
	return err
}

// Delete implements storage.Interface. The deleted object has the version of its
// deletion.
func (s currentStore) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, options)
	if err == nil {
		s.written.note(out)
	}
	return err
}
