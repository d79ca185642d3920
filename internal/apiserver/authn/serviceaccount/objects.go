package serviceaccount

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Objects finds the objects that tokens are bound to.
type Objects struct {
	client    metadata.Interface
	informers metadatainformer.SharedInformerFactory
	// watched holds the kinds to which most tokens are bound. Other objects are read on
	// demand, because there may be very many Secrets.
	watched map[Kind]cache.GenericLister
}

// NewObjects returns an Objects that reads with cfg.
func NewObjects(cfg *rest.Config) (*Objects, error) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client for bound objects: %w", err)
	}
	return newObjects(client)
}

func newObjects(client metadata.Interface) (*Objects, error) {
	o := &Objects{
		client:    client,
		informers: metadatainformer.NewSharedInformerFactory(client, 0),
		watched:   map[Kind]cache.GenericLister{},
	}
	for _, kind := range []Kind{Accounts, Pods} {
		informer := o.informers.ForResource(kind.resource())
		if err := informer.Informer().SetTransform(strip); err != nil {
			return nil, fmt.Errorf("watching %s: %w", kind, err)
		}
		o.watched[kind] = informer.Lister()
	}
	return o, nil
}

// Start begins to watch, until ctx ends. Until the first lists have arrived,
// every lookup calls the server.
func (o *Objects) Start(ctx context.Context) { o.informers.Start(ctx.Done()) }

// Find is a Lookup. If the cache does not have the object as the token names
// it, the object may be newer than the cache, so the server is called.
func (o *Objects) Find(ctx context.Context, kind Kind, namespace string, ref Ref) (metav1.Object, error) {
	if object, ok := o.cached(kind, namespace, ref); ok {
		return object, nil
	}
	if namespace == "" {
		return o.client.Resource(kind.resource()).Get(ctx, ref.Name, metav1.GetOptions{})
	}
	return o.client.Resource(kind.resource()).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
}

func (o *Objects) cached(kind Kind, namespace string, ref Ref) (metav1.Object, bool) {
	lister, ok := o.watched[kind]
	if !ok {
		return nil, false
	}
	found, err := lister.ByNamespace(namespace).Get(ref.Name)
	if err != nil {
		return nil, false
	}
	object, ok := found.(metav1.Object)
	return object, ok && object.GetUID() == ref.UID
}

func (k Kind) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: string(k)}
}

// strip keeps only what lookups need, so that thousands of pods take little
// memory.
func strip(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, UID: full.UID,
		ResourceVersion: full.ResourceVersion, DeletionTimestamp: full.DeletionTimestamp,
	}}, nil
}
