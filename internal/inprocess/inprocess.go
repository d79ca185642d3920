// Package inprocess makes clients and caches of an API. If the API is in the same
// process, they exchange objects with it without encoding them; otherwise they are
// those of controller-runtime.
package inprocess

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/loopback"
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

// NewCache returns a cache. Its objects share their parts with the cache of an API
// in the same process: whoever changes what is behind a pointer of an object in
// this cache, without a copy, changes what the API serves. Transforms must not do
// that either. options.NewInformer, if not nil, is made of Informers.
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
