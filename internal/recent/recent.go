// Package recent answers reads of objects that the parts of this process have just
// read or written. The store says whether an object is still the same, which takes a
// fraction of what the API does to read it: the answer is never older than that of
// the API.
package recent

import (
	"context"
	"reflect"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept is how many objects are kept. Those of the ACME server have a few kilobytes.
const kept = 2000

// Config has what Objects need.
type Config struct {
	// Kinds are the kinds whose objects are kept, with an object of their Go type.
	// One that is served has one version and is stored without conversion.
	Kinds map[schema.GroupVersionResource]client.Object
	// Revision returns the revision at which the object of a resource was last written,
	// 0 if there is none. It must not be older than what the API reads.
	Revision func(ctx context.Context, of schema.GroupResource, key client.ObjectKey) (int64, error)
	// Users are those of the process's parts by their bearer tokens.
	Users map[string]*user.DefaultInfo
}

// Allows reports whether the API would allow a request.
type Allows func(ctx context.Context, request authorizer.Attributes) bool

// Objects keeps objects. It is safe for concurrent use. Nil keeps none.
type Objects struct {
	Config
	resources map[reflect.Type]schema.GroupVersionResource
	objects   *lru.Cache // client.Object by place
	allows    atomic.Pointer[Allows]
}

// place is where an object is found.
type place struct {
	of  schema.GroupVersionResource
	key client.ObjectKey
}

// New returns Objects that have none yet. The API is asked for each until Authorize is
// called.
func New(cfg Config) *Objects {
	o := &Objects{Config: cfg, resources: map[reflect.Type]schema.GroupVersionResource{}, objects: lru.New(kept)}
	for resource, example := range cfg.Kinds {
		o.resources[reflect.TypeOf(example)] = resource
	}
	return o
}

// Authorize lets those read objects whom the API would allow it.
func (o *Objects) Authorize(allows Allows) { o.allows.Store(&allows) }

// Of returns the objects as the part with a bearer token may read them, nil if there
// is no such part.
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
		return false, nil // the API says why not
	}
	revision, err := r.Revision(ctx, resource.GroupResource(), key)
	if err != nil {
		return false, nil // the API has errors of its own for this
	}
	at := place{resource, key}
	if revision == 0 {
		r.objects.Remove(at)
		return true, apierrors.NewNotFound(resource.GroupResource(), key.Name)
	}
	stored, ok := r.objects.Get(at)
	if !ok || revisionOf(stored.(client.Object)) != revision {
		return false, nil
	}
	copyInto(into, stored.(client.Object))
	return true, nil
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
