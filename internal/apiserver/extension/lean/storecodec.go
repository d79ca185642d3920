package lean

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	kjson "sigs.k8s.io/json"
)

// storeCodec writes objects to the store as JSON, like the library, and reads
// whatever the library has written.
type storeCodec struct {
	*definition
	// library reads encodings other than JSON.
	library runtime.Decoder
	decoded *decodings
}

// stored is a stored object.
type stored struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            json.RawMessage   `json:"spec"`
	Status          json.RawMessage   `json:"status"`
}

// Encode implements runtime.Encoder. Fields that a webhook has set and that the definition
// does not contain are dropped when they are read, as in the library.
func (c storeCodec) Encode(obj runtime.Object, w io.Writer) error {
	o, ok := obj.(*Object)
	if !ok {
		return fmt.Errorf("a %T cannot be stored as a %s", obj, c.kind.Kind)
	}
	return o.writeTo(w)
}

// Identifier implements runtime.Encoder.
func (c storeCodec) Identifier() runtime.Identifier { return "lean" }

// Decode implements runtime.Decoder.
func (c storeCodec) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	target, ok := into.(*Object)
	if into != nil && !ok {
		return nil, nil, fmt.Errorf("a stored %s cannot be read as a %T", c.kind.Kind, into)
	}
	if target == nil {
		target = &Object{}
	}
	kind := c.kind
	if c.decoded.find(data, target) {
		return target, &kind, nil
	}
	if c.quickly(data, target) {
		c.decoded.remember(data, target)
		return target, &kind, nil
	}
	return target, &kind, c.thoroughly(data, target)
}

// quickly reports whether the stored object is of the usual form.
func (c storeCodec) quickly(data []byte, target *Object) bool {
	var s stored
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &s); err != nil || s.GroupVersionKind() != c.kind || s.Metadata.Generation == 0 {
		return false
	}
	o, err := c.cleaned(&Object{TypeMeta: s.TypeMeta, ObjectMeta: s.Metadata, Spec: JSON(s.Spec), Status: JSON(s.Status)})
	if err != nil {
		return false
	}
	*target = *o
	return true
}

// thoroughly reads other formats, and objects of long ago with malformed metadata
// or without a generation.
func (c storeCodec) thoroughly(data []byte, target *Object) error {
	decoded, _, err := c.library.Decode(data, nil, &unstructured.Unstructured{})
	if err != nil {
		return err
	}
	u := decoded.(*unstructured.Unstructured)
	metadata, _, err := c.clean(u, strictness{dropBadMetadata: true})
	if err != nil {
		return err
	}
	metadata.Generation = max(metadata.Generation, 1)
	if _, err := c.converter.ConvertToVersion(u, c.kind.GroupVersion()); err != nil {
		return err
	}
	o, err := c.fromClean(u, metadata)
	if err != nil {
		return err
	}
	*target = *o
	return nil
}

// withCodec opens stores with the codec of a definition.
type withCodec struct {
	generic.RESTOptionsGetter
	definition *definition
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (w withCodec) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	options, err := w.RESTOptionsGetter.GetRESTOptions(resource, nil)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Codec = storeCodec{w.definition, config.Codec, newDecodings()}
	options.StorageConfig = &config
	return options, nil
}
