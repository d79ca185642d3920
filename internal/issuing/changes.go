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
)

// Changes watches the objects that issuers and requests wait for.
type Changes struct {
	// Secrets watches Secrets.
	Secrets *secretwatch.Watcher
	// Cache has the objects of the other kinds, those in Watches.
	Cache   cache.Cache
	Watches []client.Object
	// Client resolves their kinds.
	Client client.Client
}

// Run calls changed for each object that has changed, and missed when changes
// may have been missed. It returns at once; the watches end with ctx.
func (c Changes) Run(ctx context.Context, changed func(Reference), missed func()) {
	go c.Secrets.Run(ctx, secretwatch.Listener{
		Changed: func(secret types.NamespacedName) { changed(Secret(secret)) }, Missed: missed,
	})
	for _, kind := range c.Watches {
		go func() {
			if err := c.follow(ctx, kind, changed); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Cannot follow what issuers wait for; requests are tried again after a while")
			}
		}()
	}
}

func (c Changes) follow(ctx context.Context, kind client.Object, changed func(Reference)) error {
	gvk, err := c.Client.GroupVersionKindFor(kind)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", kind, err)
	}
	informer, err := c.Cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("following %s: %w", gvk.Kind, err)
	}
	tell := func(object any) {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(client.Object); ok {
			changed(Reference{Kind: gvk.GroupKind(), NamespacedName: client.ObjectKeyFromObject(o)})
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }, DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("following %s: %w", gvk.Kind, err)
	}
	<-ctx.Done()
	return informer.RemoveEventHandler(registration)
}
