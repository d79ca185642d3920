package lean

import (
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a custom resource.
type Object struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec, Status JSON
}

// JSON is the text of a field in the form of encoding/json, with sorted names.
// It is empty if the object does not have the field. As a text never changes,
// copies of objects and their versions share it, and equal fields are compared
// without being parsed.
type JSON string

// List is a list of custom resources.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Object `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	out := *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	out := &List{TypeMeta: l.TypeMeta, Items: make([]Object, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Object)
	}
	return out
}

// MarshalJSON implements json.Marshaler.
func (o *Object) MarshalJSON() ([]byte, error) {
	metadata, err := json.Marshal(&o.ObjectMeta)
	if err != nil {
		return nil, fmt.Errorf("encoding the metadata of %s %s: %w", o.Kind, o.Name, err)
	}
	text := make([]byte, 0, len(metadata)+o.contentSize())
	text = strconv.AppendQuote(append(text, `{"apiVersion":`...), o.APIVersion)
	text = strconv.AppendQuote(append(text, `,"kind":`...), o.Kind)
	text = append(append(text, `,"metadata":`...), metadata...)
	if o.Spec != "" {
		text = append(append(text, `,"spec":`...), o.Spec...)
	}
	if o.Status != "" {
		text = append(append(text, `,"status":`...), o.Status...)
	}
	return append(text, '}'), nil
}

// contentSize is the length of everything but the metadata.
func (o *Object) contentSize() int {
	const names = 64 // of the fields, with their punctuation
	return names + len(o.APIVersion) + len(o.Kind) + len(o.Spec) + len(o.Status)
}

// Size returns about how many bytes the object takes as JSON.
func (o *Object) Size() int { return o.ObjectMeta.Size() + o.contentSize() }

// metadataMap returns the metadata as JSON values, like those of an
// unstructured object.
func (o *Object) metadataMap() (map[string]any, error) {
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.ObjectMeta)
	if err != nil {
		return nil, fmt.Errorf("converting the metadata of %s %s: %w", o.Kind, o.Name, err)
	}
	if metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	return metadata, nil
}

// setMetadata replaces the metadata by that of an unstructured object.
func (o *Object) setMetadata(from *unstructured.Unstructured) error {
	o.ObjectMeta = metav1.ObjectMeta{}
	metadata, ok := from.Object["metadata"].(map[string]any)
	if !ok {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, &o.ObjectMeta); err != nil {
		return fmt.Errorf("reading the metadata of %s %s: %w", o.Kind, o.Name, err)
	}
	return nil
}
