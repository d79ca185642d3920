// Package objectpass passes objects between the API's handlers and clients in the
// same process without encoding them. Instead of an encoding, the handlers read
// and write a handle: a random number that stands for one object, once, while the
// request runs.
//
// Decoding, defaulting, conversion, admission, audit and registries work as with any
// other format. The store, webhooks, records of objects and Status errors encode the
// objects themselves. The API server hides the format in requests from the network, so
// that it rejects them like any unknown format.
//
// Each object that a call sends or receives is copied once (see Objects.Copy). The copy
// equals the result of decoding its JSON: times have the precision of the API, and empty
// optional fields are missing.
package objectpass

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// MediaType is the format of a body that is a handle. Only the transport within
// the process may use it.
const MediaType = "application/" + subtype

const subtype = "vnd.certplane.object"

// HandleSize is the length of a handle in bytes.
const HandleSize = 16

// Handle stands for an object that is on its way.
type Handle [HandleSize]byte

// Objects are the objects of an API that are on their way between its handlers
// and clients in the same process. It is safe for concurrent use.
type Objects struct {
	scheme *runtime.Scheme
	custom map[schema.GroupVersionKind]Custom
	types  sets.Set[reflect.Type] // the types in custom
	plans  plans

	mu      sync.Mutex
	handles map[Handle]runtime.Object
}

// New returns an empty table for the kinds of scheme.
func New(scheme *runtime.Scheme) *Objects {
	return &Objects{scheme: scheme, handles: map[Handle]runtime.Object{}}
}

// Custom contains the Go types of a kind of custom resource. Each has a field ObjectMeta or
// ListMeta for its metadata; object types also have Spec and Status.
type Custom struct{ Object, List runtime.Object }

// Add adds kinds of custom resources, which the scheme of the API does not have. It must
// be called before the objects are used, and once.
func (o *Objects) Add(kinds map[schema.GroupVersionKind]Custom) {
	o.custom, o.types = kinds, sets.New[reflect.Type]()
	for _, kind := range kinds {
		o.types.Insert(reflect.TypeOf(kind.Object), reflect.TypeOf(kind.List))
	}
}

// Custom returns the Go types of a kind of custom resources. Nil has none.
func (o *Objects) Custom(kind schema.GroupVersionKind) (Custom, bool) {
	if o == nil {
		return Custom{}, false
	}
	types, ok := o.custom[kind]
	return types, ok
}

// Passes reports whether objects of the type of example can be passed: the API
// must have the same Go type.
func (o *Objects) Passes(example runtime.Object) bool {
	switch example.(type) {
	case nil, runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return false
	}
	kinds, unversioned, err := o.scheme.ObjectKinds(example)
	known := err == nil && !unversioned && len(kinds) > 0 || o.types.Has(reflect.TypeOf(example))
	return known && o.plans.of(example).ok
}

// Put returns a new handle for obj.
func (o *Objects) Put(obj runtime.Object) Handle {
	var handle Handle
	rand.Read(handle[:]) // never fails: crypto/rand ends the process instead
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handles[handle] = obj
	return handle
}

// Take returns the object of a handle, which is worth nothing from then on.
func (o *Objects) Take(data []byte) (obj runtime.Object, ok bool) {
	if len(data) != HandleSize {
		return nil, false
	}
	handle := Handle(data)
	o.mu.Lock()
	defer o.mu.Unlock()
	obj, ok = o.handles[handle]
	delete(o.handles, handle)
	return obj, ok
}

// Drop makes a handle worthless.
func (o *Objects) Drop(handle Handle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.handles, handle)
}

// Len returns how many objects are on their way.
func (o *Objects) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.handles)
}

// Wanted reports whether the sender of a header would rather have handles than
// anything else.
func Wanted(header http.Header) bool {
	first, _, _ := strings.Cut(header.Get("Accept"), ",")
	return first == MediaType
}

// Refuse changes the header of a request that does not come from this process, so
// that handles are a format like any other that the API does not know.
func Refuse(header http.Header) {
	for _, key := range []string{"Accept", "Content-Type"} {
		for i, value := range header[key] {
			if strings.Contains(strings.ToLower(value), subtype) {
				header[key][i] = strings.ReplaceAll(strings.ToLower(value), subtype, "x-unknown")
			}
		}
	}
}

// Unlist returns a message to a client elsewhere without the format of handles in the
// list of formats that the API knows.
func Unlist(message []byte) []byte { return bytes.Replace(message, []byte(", "+MediaType), nil, 1) }
