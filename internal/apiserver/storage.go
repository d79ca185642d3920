package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	encryptionreload "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/store/storespace"
)

// Storage configures where objects are stored. The layout is that of kube-apiserver, so that
// etcd tools and backups for it also work here.
type Storage struct {
	// Servers are the etcd endpoints.
	Servers []string
	// Connect returns a new client of an etcd inside this process, the one of
	// Servers; it is nil for an external etcd.
	Connect func() *clientv3.Client
	// Read reads a key of an etcd inside this process, with the guarantee of a linearizable
	// read of a client, and returns the revision of the store. It is nil for an external etcd.
	Read func(ctx context.Context, key string) (*mvccpb.KeyValue, int64, error)
	// Prefix is the root of all keys, usually /registry.
	Prefix string
	// CAFile, CertFile and KeyFile are for TLS to an external etcd.
	CAFile, CertFile, KeyFile string
	// EncryptionFile is a file of kind EncryptionConfiguration, which selects the resources
	// to encrypt and the keys. It is read again when it changes.
	EncryptionFile string
	// Shared means that other servers may use the same store.
	Shared bool
	// Records, if not nil, is where certificates in requests are recorded.
	Records *inventory.Inventory
	// Space, if not nil, limits the room in the store.
	Space *storespace.Space
}

// encryptionPoll is the interval in which the EncryptionFile is checked for
// changes.
const encryptionPoll = 2 * time.Second

// pollEncryption sets the library's process-wide interval. It reads one small
// file each time.
var pollEncryption = sync.OnceFunc(func() { encryptionreload.EncryptionConfigFileChangePollDuration = encryptionPoll })

// uncached are resources without a watch cache. Events are written far more
// often than they are read. There can be any number of Secrets that have
// nothing to do with certificates, and a cache would hold all of them,
// including their contents.
var uncached = map[schema.GroupResource]bool{{Resource: "events"}: true, {Resource: "secrets"}: true}

// storedUnder are the resources whose keys do not begin with their names, as
// in kube-apiserver. internal/run/server moves what older versions stored elsewhere.
var storedUnder = map[schema.GroupResource]string{
	{Resource: "nodes"}:    "minions",
	{Resource: "services"}: "services/specs",
}

func newBackend(storage Storage) *storagebackend.Config {
	backend := storagebackend.NewDefaultConfig(storage.Prefix, nil)
	backend.Transport = storagebackend.TransportConfig{
		ServerList:    storage.Servers,
		TrustedCAFile: storage.CAFile,
		CertFile:      storage.CertFile,
		KeyFile:       storage.KeyFile,
	}
	return backend
}

// openStores changes how stores are opened. Those of uncached get no watch cache.
type openStores func(next generic.RESTOptionsGetter, uncached map[schema.GroupResource]bool) generic.RESTOptionsGetter

// useStorage makes generic store objects in the etcd of storage.
func useStorage(generic *genericapiserver.Config, storage Storage, open openStores) error {
	backend := newBackend(storage)
	// The time that etcd takes is part of the trace of a request.
	backend.Transport.TracerProvider = generic.TracerProvider
	backend.StorageObjectCountTracker = generic.StorageObjectCountTracker

	pollEncryption()
	etcd := options.NewEtcdOptions(backend)
	etcd.EncryptionProviderConfigFilepath = storage.EncryptionFile
	etcd.EncryptionProviderConfigAutomaticReload = true
	factory := serverstorage.NewDefaultStorageFactory(
		*backend,
		runtime.ContentTypeProtobuf,
		api.NewCodecs(false),
		storedVersions(),
		serverstorage.NewResourceConfig(),
		storedUnder,
	)
	for resource := range uncached {
		etcd.WatchCacheSizes = append(etcd.WatchCacheSizes, resource.String()+"#0")
	}
	if err := etcd.ApplyWithStorageFactoryTo(factory, generic); err != nil {
		return fmt.Errorf("configuring the store: %w", err)
	}
	generic.RESTOptionsGetter = namelessHub{open(generic.RESTOptionsGetter, uncached)}
	return nil
}

// storedVersions configures the versions of objects that are not stored in the preferred
// version of their group: a kube-apiserver of the previous release must also be able to read
// them.
func storedVersions() *serverstorage.DefaultResourceEncodingConfig {
	versions := serverstorage.NewDefaultResourceEncodingConfig(api.Scheme)
	for resource, version := range map[string]string{
		"clustertrustbundles":    "v1beta1", // Kubernetes 1.36 does not support v1
		"podcertificaterequests": "v1beta1", // v1 cannot represent requests of kubelet 1.35
	} {
		resource := certificatesv1.Resource(resource)
		versions.SetResourceEncoding(resource,
			schema.GroupVersion{Group: resource.Group, Version: version},
			schema.GroupVersion{Group: resource.Group, Version: runtime.APIVersionInternal})
	}
	return versions
}

// open returns a function that makes stores check their space, explain their errors, and
// connect directly to an etcd inside this process. outer wraps each store including the
// checks of space, which so see everything that outer adds to an object.
func (s Storage) open(outer func(schema.GroupResource, storage.Interface) storage.Interface) openStores {
	var etcd *directEtcd
	if s.Connect != nil {
		etcd = &directEtcd{connect: s.Connect, read: s.Read}
		etcd.checkFeatures(s.Servers[0])
	}
	return func(next generic.RESTOptionsGetter, uncached map[schema.GroupResource]bool) generic.RESTOptionsGetter {
		if etcd != nil {
			next = directStores{next, etcd, uncached}
		}
		return wrappedStores{next, func(resource schema.GroupResource, store storage.Interface) storage.Interface {
			if s.Space != nil {
				store = newSpacedStore(resource, store, s.Space)
			}
			return weighedStore{sizedStore{outer(resource, store)}, uncached[resource]}
		}}
	}
}
