package lean

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// MarshalJSON implements json.Marshaler. The result is the same as the library's.
func (o *Object) MarshalJSON() ([]byte, error) {
	metadata, err := marshalMetadata(&o.ObjectMeta)
	if err != nil {
		return nil, fmt.Errorf("encoding the metadata of %s %s: %w", o.Kind, o.Name, err)
	}
	// Clients choose both, and audit logs also contain refused objects.
	version, err := json.Marshal(o.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("encoding the version of %s: %w", o.Name, err)
	}
	kind, err := json.Marshal(o.Kind)
	if err != nil {
		return nil, fmt.Errorf("encoding the kind of %s: %w", o.Name, err)
	}
	text := make([]byte, 0, len(metadata)+o.contentSize())
	text = append(append(text, `{"apiVersion":`...), version...)
	text = append(append(text, `,"kind":`...), kind...)
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

// writeTo writes the object as a line.
func (o *Object) writeTo(w io.Writer) error {
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// writeTo writes the list as a line, object by object. The library has a token for
// the rest of the list in each list, also an empty one.
func (l *List) writeTo(w io.Writer) error {
	metadata, err := json.Marshal(struct {
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
		ResourceVersion    string `json:"resourceVersion"`
	}{l.Continue, l.RemainingItemCount, l.ResourceVersion})
	if err != nil {
		return fmt.Errorf("encoding the metadata of a list: %w", err)
	}
	if _, err := fmt.Fprintf(w, `{"apiVersion":%q,"items":[`, l.APIVersion); err != nil {
		return err
	}
	for i := range l.Items {
		text, err := l.Items[i].MarshalJSON()
		if err != nil {
			return err
		}
		if i < len(l.Items)-1 {
			text = append(text, ',')
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "],\"kind\":%q,\"metadata\":%s}\n", l.Kind, metadata)
	return err
}
