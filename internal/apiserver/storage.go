package apiserver

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	encryptionreload "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/certplane/certplane/internal/api"
)

// Storage says where objects are kept: in the layout of kube-apiserver, so
// that etcd tools and backups made for it work here too.
type Storage struct {
	// Servers are the etcd endpoints.
	Servers []string
	// Prefix is the root of all keys, usually /registry.
	Prefix string
	// CAFile, CertFile and KeyFile are for TLS to an external etcd.
	CAFile, CertFile, KeyFile string
	// EncryptionFile is a file of kind EncryptionConfiguration that says what
	// is encrypted and how. It is read again when it changes.
	EncryptionFile string
	// Shared says that other servers may use the same store.
	Shared bool
}

// encryptionPoll is how soon a change of the EncryptionFile is seen.
const encryptionPoll = 2 * time.Second

// pollEncryption sets the library's process-wide interval. It reads one small
// file each time.
var pollEncryption = sync.OnceFunc(func() { encryptionreload.EncryptionConfigFileChangePollDuration = encryptionPoll })

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

// useStorage makes generic keep objects in the etcd of storage.
func useStorage(generic *genericapiserver.Config, storage Storage) error {
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
		serverstorage.NewDefaultResourceEncodingConfig(api.Scheme),
		serverstorage.NewResourceConfig(),
		nil,
	)
	// Events are written far more often than they are read.
	etcd.WatchCacheSizes = append(etcd.WatchCacheSizes, "events#0")
	if err := etcd.ApplyWithStorageFactoryTo(factory, generic); err != nil {
		return fmt.Errorf("configuring the store: %w", err)
	}
	generic.RESTOptionsGetter = namelessHub{explainSizes(generic.RESTOptionsGetter)}
	return nil
}
