package installcrds

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/process/worker"
)

var kind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Config is the configuration of the controller.
type Config struct {
	Installer
	// Stored is the cache that watches definitions.
	Stored cache.Cache
}

// Add registers the controller with mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	stored := &metav1.PartialObjectMetadata{}
	stored.SetGroupVersionKind(kind)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("define").
		// A definition that is missing when the controller starts has no event.
		WatchesRawSource(source.Func(cfg.queueAll)).
		WatchesRawSource(source.Kind(cfg.Stored, stored, &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{})).
		WithOptions(controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](worker.FirstPause, worker.LastPause)}).
		Complete(&reconciler{cfg})
	if err != nil {
		return fmt.Errorf("building the definition controller: %w", err)
	}
	return nil
}

func (c Config) queueAll(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	for _, name := range c.Names {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return nil
}

type reconciler struct{ Config }

// Reconcile makes a definition what it should be.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !slices.Contains(r.Names, request.Name) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.install(ctx, request.Name)
}
