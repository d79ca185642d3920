package objectpass

import (
	"errors"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// TakeEvent returns the event of a watch that data stands for.
func (o *Objects) TakeEvent(data []byte) (watch.Event, bool) {
	if len(data) <= HandleSize {
		return watch.Event{}, false
	}
	obj, ok := o.Take(data[:HandleSize])
	return watch.Event{Type: watch.EventType(data[HandleSize:]), Object: obj}, ok
}

// eventFormat writes the events of a watch: the handle of the object, then the
// type of the event.
type eventFormat struct{}

// Encode implements runtime.Encoder.
func (eventFormat) Encode(obj runtime.Object, w io.Writer) error {
	event, ok := obj.(*metav1.WatchEvent)
	if !ok || len(event.Object.Raw) != HandleSize {
		return errors.New("this is not the event of an object")
	}
	_, err := w.Write(append(event.Object.Raw[:HandleSize:HandleSize], event.Type...))
	return err
}

// Identifier implements runtime.Encoder.
func (eventFormat) Identifier() runtime.Identifier { return "event-with-handle" }

// Decode implements runtime.Decoder. It always fails, because clients do not send events to
// a server.
func (eventFormat) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, errors.New("events are not decoded")
}

// framer writes each event with one call, and makes its handle worthless after
// that.
type framer struct{ objects *Objects }

func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser { return r }

func (f framer) NewFrameWriter(w io.Writer) io.Writer { return frames{f.objects, w} }

type frames struct {
	objects *Objects
	next    io.Writer
}

func (f frames) Write(data []byte) (int, error) {
	if len(data) >= HandleSize {
		defer f.objects.Drop(Handle(data[:HandleSize]))
	}
	return f.next.Write(data)
}

// copyInto makes into what obj is, if both have the same type.
func copyInto(into, obj runtime.Object) bool {
	target, source := reflect.ValueOf(into), reflect.ValueOf(obj)
	if target.Type() != source.Type() {
		return false
	}
	target.Elem().Set(source.Elem())
	return true
}

// CopyInto sets into to the object that a client would have decoded from obj. The kind of
// into stays.
func (o *Objects) CopyInto(into, obj runtime.Object) bool {
	kind := into.GetObjectKind().GroupVersionKind()
	if !copyInto(into, o.Copy(obj)) {
		return false
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	return true
}
