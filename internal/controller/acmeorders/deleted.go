package acmeorders

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/worker"
)

// deleted remembers orders that were deleted while they were processing, and denied
// requests: a denial ends the effect of earlier approvals, even if the order is deleted
// before the controller sees the denial. It is safe for concurrent use.
type deleted struct {
	orders  *lru.Cache // *v1alpha1.AcmeOrder by its key
	denials *lru.Cache // the reason, by the key of the order
}

const keptDeleted = 1000

func newDeleted() *deleted { return &deleted{lru.New(keptDeleted), lru.New(keptDeleted)} }

// handler remembers orders, and queues them.
func (d *deleted) handler() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, q worker.Queue) {
		if o, ok := e.Object.(*v1alpha1.AcmeOrder); ok && o.Status.State == v1alpha1.AcmeOrderProcessing && o.Status.Request != nil {
			key := client.ObjectKeyFromObject(o)
			d.orders.Add(key, o)
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}}
}

// denied remembers a denial. It returns the order of the request if the order was deleted.
func (d *deleted) denied(stored client.Object) []reconcile.Request {
	m := newMade(stored)
	key, possible := acmeorder.OrderKeyOf(m.view.Requester.Username, m.view.Namespace, m.view.Name)
	if !possible || m.standing.Denied == nil {
		return nil
	}
	d.denials.Add(key, m.standing.Denied.Reason)
	if _, isDeleted := d.orders.Get(key); !isDeleted {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// afterDeletion records the denial if the request of a deleted order was denied.
func (r *reconciler) afterDeletion(ctx context.Context, key client.ObjectKey) (reconcile.Result, error) {
	kept, isDeleted := r.deleted.orders.Get(key)
	reason, isDenied := r.deleted.denials.Get(key)
	if !isDeleted || !isDenied {
		return reconcile.Result{}, nil
	}
	p := &pass{reconciler: r, o: kept.(*v1alpha1.AcmeOrder).DeepCopy()}
	err := p.endCarrying(ctx, reason.(string))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: worker.ConflictPause}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("ending the effect of earlier approvals: %w", err)
	}
	r.deleted.orders.Remove(key)
	return reconcile.Result{}, nil
}
