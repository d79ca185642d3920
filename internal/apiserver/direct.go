package apiserver

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdclient "go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// directStores opens the stores of next on an etcd inside this process. The
// library supports only an etcd with an address, and opens a connection for
// each resource; here every call is a function call.
type directStores struct {
	next     generic.RESTOptionsGetter
	etcd     *directEtcd
	uncached map[schema.GroupResource]bool
}

func (d directStores) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := d.next.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	options.Decorator = d.etcd.openCached
	if d.uncached[resource] {
		options.Decorator = d.etcd.openUncached
	}
	return options, nil
}

// directEtcd is an etcd inside this process and the state that its stores
// share. It is safe for concurrent use.
type directEtcd struct {
	// connect returns a new client. The caller must close it.
	connect func() *clientv3.Client
	// read is Storage.Read; it can be nil.
	read func(ctx context.Context, key string) (*mvccpb.KeyValue, int64, error)

	mu        sync.Mutex
	stores    int
	compactor interface {
		etcd3.Compactor
		Stop()
	}
}

// compact returns the compactor, which removes old revisions as long as any
// store is open.
func (d *directEtcd) compact(config *storagebackend.ConfigForResource) (_ etcd3.Compactor, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stores++; d.stores == 1 {
		client := d.connect()
		d.compactor = etcd3.NewCompactor(client, config.CompactionInterval, clock.RealClock{}, func() { client.Close() })
	}
	compactor := d.compactor
	return compactor, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.stores--; d.stores == 0 {
			compactor.Stop()
		}
	}
}

// openUncached implements the library's generic.UndecoratedStorage.
func (d *directEtcd) openUncached(config *storagebackend.ConfigForResource, prefix string,
	_ func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return d.open(config, prefix, newFunc, newListFunc)
}

// openCached implements the library's registry.StorageWithCacher.
func (d *directEtcd) openCached(config *storagebackend.ConfigForResource, prefix string,
	keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	store, destroy, err := d.open(config, prefix, newFunc, newListFunc)
	if err != nil {
		return nil, nil, err
	}
	cached := &cachedStore{Interface: store, keyFunc: keyFunc, newFunc: newFunc}
	watched, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             cached,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       config.GroupResource,
		EventsHistoryWindow: config.EventsHistoryWindow,
		ResourcePrefix:      prefix,
		KeyFunc:             keyFunc,
		NewFunc:             newFunc,
		NewListFunc:         newListFunc,
		GetAttrsFunc:        (&recentAttributes{of: attributes}).get,
		IndexerFuncs:        triggers,
		Indexers:            indexers,
		Codec:               config.Codec,
	})
	if err != nil {
		destroy()
		return nil, nil, err
	}
	cached.cache.Store(watched)
	delegator := cacher.NewCacheDelegator(watched, store)
	return awaitedCache{delegator, watched}, sync.OnceFunc(func() {
		delegator.Stop()
		watched.Stop()
		destroy()
	}), nil
}

// awaitedCache makes watches wait while the cache is filled for the first time, which takes
// milliseconds with an etcd in this process. The library would refuse them until then, and
// clients, including the server's own at each start, would try again after a second.
type awaitedCache struct {
	*cacher.CacheDelegator
	cache *cacher.Cacher
}

// fillTime bounds the wait.
const fillTime = 2 * time.Second

// Watch implements storage.Interface.
func (a awaitedCache) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	if !a.cache.Ready() {
		waiting, cancel := context.WithTimeout(ctx, fillTime)
		_ = a.cache.Wait(waiting) // on a timeout, the library returns its own error
		cancel()
	}
	return a.CacheDelegator.Watch(ctx, key, options)
}

// open is the library's factory.Create with another client. A store has its own
// client, because its watches must not share a stream with other stores: etcd
// sends a progress notification to all watches of a stream.
func (d *directEtcd) open(config *storagebackend.ConfigForResource, prefix string, newFunc, newListFunc func() runtime.Object) (storage.Interface, factory.DestroyFunc, error) {
	client := &etcdclient.Client{Client: d.connect()}
	client.Kubernetes = client
	if d.read != nil {
		client.Kubernetes = directReads{client, d.read}
	}
	client.KV = togetherKV{etcd3.NewETCDLatencyTracker(client.KV)} // etcd's share of a request's latency
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	compactor, release := d.compact(config)
	versioner := storage.APIObjectVersioner{}
	store, err := etcd3.New(client, compactor, config.Codec, newFunc, newListFunc, config.Prefix, prefix, config.GroupResource,
		transformer, config.LeaseManagerConfig, etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		release()
		client.Close()
		return nil, nil, err
	}
	// Several endpoints of one resource share a store, and each destroys it.
	return store, sync.OnceFunc(func() {
		release()
		store.Close()
		client.Close()
	}), nil
}

// directReads reads keys of an etcd inside this process without asking raft, which would sync
// its log to disk first.
type directReads struct {
	etcdclient.Interface
	read func(ctx context.Context, key string) (*mvccpb.KeyValue, int64, error)
}

// Get implements etcdclient.Interface.
func (d directReads) Get(ctx context.Context, key string, options etcdclient.GetOptions) (etcdclient.GetResponse, error) {
	if options.Revision == 0 {
		if found, revision, err := d.read(ctx, key); err == nil {
			return etcdclient.GetResponse{KV: found, Revision: revision}, nil
		}
	}
	return d.Interface.Get(ctx, key, options) // its errors are those that the library knows
}

// checkFeatures makes the library detect the features of the etcd at address.
// Otherwise it does so with each client that has an address.
func (d *directEtcd) checkFeatures(address string) {
	feature.DefaultFeatureSupportChecker.CheckClient(context.Background(), addressed{d.connect(), address}, storage.RequestWatchProgress)
}

// addressed is a client that returns the address it is connected to.
type addressed struct {
	*clientv3.Client
	address string
}

func (a addressed) Endpoints() []string { return []string{a.address} }
