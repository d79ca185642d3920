package objectpass

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Serializer adds handles to the formats of an API group.
type Serializer struct {
	runtime.NegotiatedSerializer // the other formats
	objects                      *Objects
	formats                      []runtime.SerializerInfo
	offered                      atomic.Bool
}

// NewSerializer returns the formats of next and, once they are offered, handles
// of objects. It must have the scheme of objects.
func NewSerializer(next runtime.NegotiatedSerializer, objects *Objects) *Serializer {
	return &Serializer{NegotiatedSerializer: next, objects: objects, formats: append(slices.Clone(next.SupportedMediaTypes()), objects.Format(&format{objects: objects}))}
}

// Format returns handles as a format of an API whose objects of reads and writes.
func (o *Objects) Format(of runtime.Serializer) runtime.SerializerInfo {
	return runtime.SerializerInfo{
		MediaType: MediaType, MediaTypeType: "application", MediaTypeSubType: subtype,
		Serializer: of, StrictSerializer: of, // the types of both sides are the same: there are no unknown fields
		StreamSerializer: &runtime.StreamSerializerInfo{Serializer: eventFormat{}, Framer: framer{o}},
	}
}

// IsOfEvents reports whether an encoder encodes the events of a watch.
func IsOfEvents(e runtime.Encoder) bool { return e == runtime.Encoder(eventFormat{}) }

// Offer begins to offer handles. Parts that are installed earlier, for example the OpenAPI
// documents, do not mention them.
func (s *Serializer) Offer() { s.offered.Store(true) }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s *Serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	if s.offered.Load() {
		return s.formats
	}
	return s.formats[:len(s.formats)-1]
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (s *Serializer) EncoderForVersion(encoder runtime.Encoder, version runtime.GroupVersioner) runtime.Encoder {
	switch encoder := encoder.(type) {
	case *format:
		return newEncoder(s.objects, version)
	case eventFormat:
		return encoder
	}
	next := s.NegotiatedSerializer.EncoderForVersion(encoder, version)
	if next, ok := next.(runtime.EncoderWithAllocator); ok {
		return unlisting{next}
	}
	return next
}

// unlisting takes the format out of the list of formats in errors: other clients
// cannot use it.
type unlisting struct{ runtime.EncoderWithAllocator }

func (u unlisting) Encode(obj runtime.Object, w io.Writer) error {
	return u.EncoderWithAllocator.Encode(unlisted(obj), w)
}

func (u unlisting) EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error {
	return u.EncoderWithAllocator.EncodeWithAllocator(unlisted(obj), w, memory)
}

func unlisted(obj runtime.Object) runtime.Object {
	status, ok := obj.(*metav1.Status)
	if !ok || status.Code != http.StatusUnsupportedMediaType && status.Code != http.StatusNotAcceptable {
		return obj
	}
	status = status.DeepCopy()
	status.Message = string(Unlist([]byte(status.Message)))
	return status
}

// format reads handles; encoders for a version write them.
type format struct{ objects *Objects }

// Decode implements runtime.Decoder. The caller owns the object.
func (f *format) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, ok := f.objects.Take(data)
	if !ok {
		return nil, nil, errors.New("this is not the handle of an object")
	}
	kinds, _, err := f.objects.scheme.ObjectKinds(obj)
	if err != nil {
		return nil, nil, err
	}
	kind := kindOf(kinds, defaults)
	obj.GetObjectKind().SetGroupVersionKind(kind)
	if into != nil && copyInto(into, obj) {
		return into, &kind, nil
	}
	return obj, &kind, nil
}

// kindOf chooses a kind in which an object can have been sent: a type can have a
// version of the API and be the internal one.
func kindOf(kinds []schema.GroupVersionKind, wanted *schema.GroupVersionKind) schema.GroupVersionKind {
	if wanted != nil && slices.Contains(kinds, *wanted) {
		return *wanted
	}
	for _, kind := range kinds {
		if kind.Version != runtime.APIVersionInternal {
			return kind
		}
	}
	return kinds[0]
}

// Encode implements runtime.Encoder.
func (f *format) Encode(obj runtime.Object, w io.Writer) error {
	return newEncoder(f.objects, nil).Encode(obj, w)
}

// Identifier implements runtime.Encoder.
func (f *format) Identifier() runtime.Identifier { return "handle" }

// encoder writes handles of objects in one version of the API.
type encoder struct {
	objects    *Objects
	version    runtime.GroupVersioner
	identifier runtime.Identifier
}

// encoders counts encoders. What one of them has written must not be kept for the
// readers of another, because each handle is worth something only once.
var encoders atomic.Uint64

func newEncoder(objects *Objects, version runtime.GroupVersioner) *encoder {
	return &encoder{objects, version, NewIdentifier()}
}

// NewIdentifier returns the identifier of an encoder that writes handles.
func NewIdentifier() runtime.Identifier {
	return runtime.Identifier("handle-" + strconv.FormatUint(encoders.Add(1), 10))
}

// Identifier implements runtime.Encoder.
func (e *encoder) Identifier() runtime.Identifier { return e.identifier }

// Encode implements runtime.Encoder. It does not change obj.
func (e *encoder) Encode(obj runtime.Object, w io.Writer) error {
	obj, err := e.inVersion(obj)
	if err != nil {
		return err
	}
	return e.objects.Write(obj, w)
}

// Write writes the handle of an object. A writer that is not a buffer takes the object
// while it is written to, or never.
func (o *Objects) Write(obj runtime.Object, w io.Writer) error {
	handle := o.Put(obj)
	switch w.(type) {
	case runtime.Splice, *bytes.Buffer:
	default:
		defer o.Drop(handle)
	}
	_, err := w.Write(handle[:])
	return err
}

// inVersion returns obj in the version of the encoder.
func (e *encoder) inVersion(obj runtime.Object) (runtime.Object, error) {
	kinds, unversioned, err := e.objects.scheme.ObjectKinds(obj)
	if err != nil || unversioned || e.version == nil {
		return obj, err
	}
	target, ok := e.version.KindForGroupVersionKinds(kinds)
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget(e.objects.scheme.Name(), reflect.TypeOf(obj), e.version)
	}
	if slices.Contains(kinds, target) {
		return obj, nil
	}
	converted, err := runtime.UnsafeObjectConvertor(e.objects.scheme).ConvertToVersion(obj, e.version)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", obj, err)
	}
	converted.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as after decoding
	return converted, nil
}
