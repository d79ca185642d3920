package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// namelessHub makes the stores of next return objects without kind and version,
// like internal objects. Here the internal types are served ones, which the
// library does not change. The items of a list would therefore have a kind and
// version.
type namelessHub struct{ next generic.RESTOptionsGetter }

func (h namelessHub) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := h.next.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	if options.StorageConfig == nil {
		return options, fmt.Errorf("no store is configured for %s", resource)
	}
	config := *options.StorageConfig
	config.Codec = namelessCodec{config.Codec}
	options.StorageConfig = &config
	return options, nil
}

type namelessCodec struct{ runtime.Codec }

func (c namelessCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return obj, kind, err
}
