// Package inprocess makes clients and caches of an API. If the API is in the same process,
// they exchange objects with it without encoding them; otherwise they are the clients and
// caches of controller-runtime.
//
// A cached object is a struct without managed fields whose strings, slices and maps are
// those of the API's watch cache. Do not change them in place: the rule is the one for
// reads with client.UnsafeDisableDeepCopy. Transforms may only set fields.
//
// These still use an encoding: metadata-only lists and watches, deletions, apply patches,
// and custom resources that are not configured to pass. If the API rejects an object of a
// type with status 415, because a definition of the user serves the kind, the client
// encodes all later objects of that type.
package inprocess

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inprocess/loopback"
)

// NewClient returns a client that reads and writes past caches.
func NewClient(api *rest.Config, options client.Options) (client.Client, error) {
	made, err := client.New(api, options)
	inside := insideOf(api)
	if inside == nil || err != nil {
		return made, err
	}
	p := &passing{Client: made, objects: inside.Objects}
	if api.Impersonate.UserName == "" {
		p.recent = inside.Recent.Of(api.BearerToken)
	}
	return p, nil
}

// Lender returns a function that has the other clients of this process read an object, until
// end is called, in the place of the stored object of its version. It is nil if the API of a
// client is in another process.
func Lender(c client.Client) func(client.Object) (end func()) {
	if p, ok := c.(*passing); ok && p.recent != nil {
		return p.recent.Lend
	}
	return nil
}

// NewCache returns a cache whose objects share memory with the cache of an API in the same
// process. Changing anything behind a pointer of a cached object, without copying it first,
// changes what the API serves; transforms must not do so either. If options.NewInformer is
// not nil, it must come from Informers.
func NewCache(api *rest.Config, options cache.Options) (cache.Cache, error) {
	if options.NewInformer == nil {
		options.NewInformer = Informers(api)
	}
	return cache.New(api, options)
}

// NewInformer makes an informer.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// Informers returns how the informers of a cache are made; nil means as usual.
func Informers(api *rest.Config) NewInformer {
	inside := insideOf(api)
	if inside == nil {
		return nil
	}
	return func(lists toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if inside.Objects.Passes(example) {
			lists = following(lists)
		}
		return toolscache.NewSharedIndexInformer(lists, example, resync, indexers)
	}
}

// insideOf returns the transport to an API in the same process that passes objects, or
// nil if the API does not.
func insideOf(api *rest.Config) *loopback.Transport {
	inside, ok := api.Transport.(*loopback.Transport)
	if !ok || inside.Objects == nil {
		return nil
	}
	return inside
}
