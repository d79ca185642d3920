package extension

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/recognizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/server/options"
)

// restOptions uses the key layout of kube-apiserver: group/resource. Resources of uncached get
// no watch cache.
func restOptions(cfg Config, codec runtime.Codec, version runtime.GroupVersioner, uncached map[schema.GroupResource]bool) generic.RESTOptionsGetter {
	backend := *cfg.Backend
	backend.Codec, backend.EncodeVersioner = codec, version
	backend.StorageObjectCountTracker = cfg.Generic.StorageObjectCountTracker
	etcd := options.NewEtcdOptions(&backend)
	for resource := range uncached {
		etcd.WatchCacheSizes = append(etcd.WatchCacheSizes, resource.String()+"#0")
	}
	factory := &options.SimpleStorageFactory{StorageConfig: etcd.StorageConfig}
	return cfg.Wrap(etcd.CreateRESTOptionsGetter(factory, cfg.Generic.ResourceTransformers), uncached)
}

// storedDefinitions stores definitions as kube-apiserver does: in v1beta1,
// which is shorter than v1 if versions share a schema.
func storedDefinitions(cfg Config) generic.RESTOptionsGetter {
	v1beta1 := apiextensionsv1beta1.SchemeGroupVersion
	return restOptions(cfg,
		crdserver.Codecs.LegacyCodec(v1beta1, apiextensionsv1.SchemeGroupVersion),
		runtime.NewMultiGroupVersioner(v1beta1, schema.GroupKind{Group: v1beta1.Group}), nil)
}

// storedResources stores custom resources as JSON, whichever formats clients
// use, so that etcd tools can read them. It can also read CBOR, which a
// kube-apiserver may have written.
func storedResources(cfg Config, uncached map[schema.GroupResource]bool) generic.RESTOptionsGetter {
	fromCBOR := cbor.NewSerializer(unstructuredscheme.NewUnstructuredCreator(), unstructuredscheme.NewUnstructuredObjectTyper())
	json := unstructured.UnstructuredJSONScheme
	return restOptions(cfg, runtime.NewCodec(json, recognizer.NewDecoder(fromCBOR, json)), nil, uncached)
}

// cachedElsewhere are the resources that package lean serves as long as their definitions are
// simple. The library opens their storage to delete the objects of a deleted definition, and
// tries again only after minutes if a watch cache is not ready by then.
func cachedElsewhere(cfg Config) map[schema.GroupResource]bool {
	lean := map[schema.GroupResource]bool{}
	for _, name := range cfg.Lean {
		lean[schema.ParseGroupResource(name)] = true
	}
	return lean
}
