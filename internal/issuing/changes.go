package issuing

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/secretwatch"
	"github.com/certplane/certplane/internal/worker"
)

// Watch is a kind of objects for which issuers can wait.
type Watch struct {
	// Object is an empty object of the kind.
	Object client.Object
	// Resource is the plural of the kind, such as orders.
	Resource string
}

// Changes watches the objects that issuers and requests wait for.
type Changes struct {
	Config
	// Cache has the objects of the kinds in Watches. Each kind is watched while
	// the API has it.
	Cache   cache.Cache
	Watches []Watch
}

// Run calls changed for each object that has changed, and missed when changes
// may have been missed. It returns at once; the watches end with ctx.
func (c Changes) Run(ctx context.Context, changed func(Reference), missed func()) {
	go c.Secrets.Run(ctx, secretwatch.Listener{
		Changed: func(secret types.NamespacedName) { changed(Secret(secret)) }, Missed: missed,
	})
	for _, kind := range c.Watches {
		go func() {
			if err := c.follow(ctx, kind, changed); err != nil {
				log.FromContext(ctx).Error(err, "Cannot follow what issuers wait for; requests are tried again after a while")
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
	handler := handlerOf(func(o client.Object) {
		changed(Reference{Kind: gvk.GroupKind(), NamespacedName: client.ObjectKeyFromObject(o)})
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
