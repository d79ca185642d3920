package issuing

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/process/changewatch"
	"github.com/certplane/certplane/internal/process/worker"
)

// Watch is a kind of object that issuers can wait for.
type Watch struct {
	// Object is an empty object of the kind.
	Object client.Object
	// Resource is the plural of the kind, such as orders.
	Resource string
	// References, if not nil, returns the references in Needs that a changed object
	// affects, instead of the object's address. It returns the owner for objects whose
	// names Needs cannot predict. It must be fast.
	References func(client.Object) []Reference
	// RequestsOnly is set if only requests wait for such objects, so that Check does not
	// depend on them.
	RequestsOnly bool
}

// Changes watches the objects that issuers and requests wait for.
type Changes struct {
	Config
	// Cache holds the objects of the kinds in Watches. Each kind is watched while the API
	// serves it.
	Cache   cache.Cache
	Watches []Watch
}

// Join returns a value for Config.Others that notifies of the changes of all.
func Join(all ...func(changed func(Reference)) (cancel func())) func(changed func(Reference)) (cancel func()) {
	return func(changed func(Reference)) (cancel func()) {
		var cancels []func()
		for _, subscribe := range all {
			cancels = append(cancels, subscribe(changed))
		}
		return func() {
			for _, cancel := range cancels {
				cancel()
			}
		}
	}
}

// Run calls changed for each object that has changed, and missed when changes
// may have been missed. It returns at once; the watches end with ctx.
func (c Changes) Run(ctx context.Context, changed func(Reference), missed func()) {
	go c.Secrets.Run(ctx, changewatch.Listener{
		Changed: func(secret types.NamespacedName, _ string) { changed(Secret(secret)) }, Missed: missed,
	})
	if c.Others != nil {
		context.AfterFunc(ctx, c.Others(changed))
	}
	for _, kind := range c.Watches {
		go func() {
			if err := c.follow(ctx, kind, changed); err != nil {
				log.FromContext(ctx).Error(err, "Cannot watch the objects that issuers wait for; requests are tried again later")
			}
		}()
	}
}

// follow calls changed for each object of a kind that has changed, while the
// API has the kind, until ctx ends.
func (c Changes) follow(ctx context.Context, kind Watch, changed func(Reference)) error {
	gvk, err := c.Client.GroupVersionKindFor(kind.Object)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", kind.Object, err)
	}
	references := kind.References
	if references == nil {
		references = func(o client.Object) []Reference {
			return []Reference{{Kind: gvk.GroupKind(), NamespacedName: client.ObjectKeyFromObject(o)}}
		}
	}
	handler := handlerOf(func(o client.Object) {
		for _, reference := range references(o) {
			changed(reference)
		}
	})
	worker.OneVersion(gvk.GroupVersion(), kind.Resource, c.Versions).Follow(ctx, "Following "+kind.Resource, func(ctx context.Context, _ string) error {
		informer, err := c.Cache.GetInformer(ctx, kind.Object)
		if err != nil {
			return err
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return err
		}
		<-ctx.Done()
		return informer.RemoveEventHandler(registration)
	})
	return nil
}

// handlerOf returns a handler that calls changed for each object that was
// created, changed or deleted.
func handlerOf(changed func(client.Object)) toolscache.ResourceEventHandler {
	tell := func(object any) {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(client.Object); ok {
			changed(o)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }, DeleteFunc: tell}
}
