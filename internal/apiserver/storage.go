package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
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
}

// useStorage makes generic keep objects in the etcd of storage.
func useStorage(generic *genericapiserver.Config, storage Storage) error {
	backend := storagebackend.NewDefaultConfig(storage.Prefix, nil)
	backend.Transport = storagebackend.TransportConfig{
		ServerList:    storage.Servers,
		TrustedCAFile: storage.CAFile,
		CertFile:      storage.CertFile,
		KeyFile:       storage.KeyFile,
	}
	backend.StorageObjectCountTracker = generic.StorageObjectCountTracker

	etcd := options.NewEtcdOptions(backend)
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
		return fmt.Errorf("configuring the etcd client: %w", err)
	}
	generic.RESTOptionsGetter = sizeErrors{generic.RESTOptionsGetter}
	return nil
}
