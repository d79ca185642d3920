// Package readcache answers reads of objects that components of this process have just read
// or written. It asks the store whether an object has changed since, which costs a fraction
// of reading it through the API. So its answer is never older than the API's.
package readcache

import (
	"context"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept is the maximum number of cached objects. An object of the ACME server takes a few
// kilobytes.
const kept = 2000

// Config contains the dependencies of Objects.
type Config struct {
	// Kinds are the kinds whose objects are kept, with an object of their Go type.
	// One that is served has one version and is stored without conversion.
	Kinds map[schema.GroupVersionResource]client.Object
	// Revision returns the revision at which the object of a resource was last written, 0 if
	// it does not exist. It must be at least as current as the API's reads.
	Revision func(ctx context.Context, of schema.GroupResource, key client.ObjectKey) (int64, error)
	// Users maps the bearer token of each component of this process to its user.
	Users map[string]*user.DefaultInfo
}

// Allows reports whether the API would allow a request.
type Allows func(ctx context.Context, request authorizer.Attributes) bool

// Objects keeps objects. It is safe for concurrent use. Nil keeps none.
type Objects struct {
	Config
	resources map[reflect.Type]schema.GroupVersionResource
	objects   *lru.Cache // client.Object by place
	lent      sync.Map   // loan by place
	allows    atomic.Pointer[Allows]
}

// place is where an object is found.
type place struct {
	of  schema.GroupVersionResource
	key client.ObjectKey
}

// loan is an object that its lender is about to store.
type loan struct {
	lender *user.DefaultInfo
	object client.Object
}

// New returns empty Objects. Until Authorize is called, all reads go to the API.
func New(cfg Config) *Objects {
	o := &Objects{Config: cfg, resources: map[reflect.Type]schema.GroupVersionResource{}, objects: lru.New(kept)}
	for resource, example := range cfg.Kinds {
		o.resources[reflect.TypeOf(example)] = resource
	}
	return o
}

// Authorize sets the authorizer. Users may read the objects that the API would let them
// read.
func (o *Objects) Authorize(allows Allows) { o.allows.Store(&allows) }

// Of returns a reader with the rights of the component that has a bearer token; nil if no
// component has it.
func (o *Objects) Of(token string) *Reader {
	if o == nil || o.Users[token] == nil {
		return nil
	}
	return &Reader{o, o.Users[token]}
}

// Reader reads as one of the process's parts. It is safe for concurrent use. Nil
// knows no objects.
type Reader struct {
	*Objects
	who *user.DefaultInfo
}

// Get makes into equal to the object that the API would answer with, or returns that
// there is none. It returns false if the API has to be asked.
func (r *Reader) Get(ctx context.Context, key client.ObjectKey, into client.Object) (known bool, err error) {
	if r == nil {
		return false, nil
	}
	resource, ok := r.resources[reflect.TypeOf(into)]
	if allows := r.allows.Load(); !ok || allows == nil || !(*allows)(ctx, r.reading(resource, key)) {
		return false, nil // the API returns the reason
	}
	revision, err := r.Revision(ctx, resource.GroupResource(), key)
	if err != nil {
		return false, nil // the API returns its own error
	}
	at := place{resource, key}
	if revision == 0 {
		r.objects.Remove(at)
		return true, apierrors.NewNotFound(resource.GroupResource(), key.Name)
	}
	if lent, ok := r.lent.Load(at); ok && lent.(loan).lender != r.who && revisionOf(lent.(loan).object) == revision {
		copyInto(into, lent.(loan).object)
		return true, nil
	}
	stored, ok := r.objects.Get(at)
	if !ok || revisionOf(stored.(client.Object)) != revision {
		return false, nil
	}
	copyInto(into, stored.(client.Object))
	return true, nil
}

// Lend has all users but its own read object, until end is called, in the place of the
// stored object of this revision. object must not be modified afterwards.
func (r *Reader) Lend(object client.Object) (end func()) {
	at := place{r.resources[reflect.TypeOf(object)], client.ObjectKeyFromObject(object)}
	r.lent.Store(at, loan{r.who, object})
	return func() { r.lent.Delete(at) }
}

func (r *Reader) reading(of schema.GroupVersionResource, key client.ObjectKey) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: r.who, Verb: "get", Namespace: key.Namespace, Name: key.Name,
		APIGroup: of.Group, APIVersion: of.Version, Resource: of.Resource, ResourceRequest: true,
	}
}

// Keep keeps an object as the API has answered with it, unless a later version is
// known.
func (r *Reader) Keep(object client.Object) {
	if r == nil {
		return
	}
	resource, ok := r.resources[reflect.TypeOf(object)]
	revision := revisionOf(object)
	if !ok || revision == 0 {
		return
	}
	at := place{resource, client.ObjectKeyFromObject(object)}
	if known, ok := r.objects.Get(at); ok && revisionOf(known.(client.Object)) >= revision {
		return
	}
	r.objects.Add(at, object.DeepCopyObject())
}

// revisionOf returns 0 for objects that are not stored.
func revisionOf(object client.Object) int64 {
	revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

func copyInto(into, from client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}
