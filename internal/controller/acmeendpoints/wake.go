package acmeendpoints

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/worker"
)

// Indexes of accounts in the cache, by the endpoint and by the UID of the external
// key.
const (
	byEndpoint = "acme-endpoints.endpoint"
	byKey      = "acme-endpoints.key"
)

// index adds the indexes to the cache. They stay even if the API temporarily does not serve
// the kinds.
func (r *reconciler) index(ctx context.Context) error {
	if r.indexed {
		return nil
	}
	err := r.cache.IndexField(ctx, &v1alpha1.AcmeAccount{}, byEndpoint, func(o client.Object) []string {
		return []string{o.(*v1alpha1.AcmeAccount).Spec.Endpoint}
	})
	if err == nil {
		err = r.cache.IndexField(ctx, &v1alpha1.AcmeAccount{}, byKey, func(o client.Object) []string {
			if key := o.(*v1alpha1.AcmeAccount).Spec.ExternalKey; key != nil {
				return []string{string(key.UID)}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("indexing AcmeAccounts: %w", err)
	}
	r.indexed = true
	return nil
}

// count returns how many accounts an index finds.
func (r *reconciler) count(ctx context.Context, index, value string) (int, error) {
	list := &v1alpha1.AcmeAccountList{}
	if err := r.cache.List(ctx, list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing AcmeAccounts: %w", err)
	}
	return len(list.Items), nil
}

// later queues the objects that a changed object affects after a delay, so that many
// changes cause one reconciliation.
func later(of func(client.Object) []reconcile.Request) handler.EventHandler {
	enqueue := func(o client.Object, q worker.Queue) {
		for _, request := range of(o) {
			q.AddAfter(request, countAgain)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q worker.Queue) {
			if !e.IsInInitialList { // these are counted in any case
				enqueue(e.Object, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q worker.Queue) { enqueue(e.Object, q) },
	}
}

func comesAndGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

func endpointOfAccount(o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.(*v1alpha1.AcmeAccount).Spec.Endpoint}}}
}

func keyOfAccount(o client.Object) []reconcile.Request {
	key := o.(*v1alpha1.AcmeAccount).Spec.ExternalKey
	if key == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: key.Namespace, Name: key.Name}}}
}

func (r *reconciler) allEndpoints(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v1alpha1.AcmeEndpointList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the AcmeEndpoints that a change may affect; the controller tries again later")
		return nil
	}
	return worker.RequestsOf[v1alpha1.AcmeEndpoint](list.Items, nil)
}

// whenServerChanges queues all endpoints after changes of the server.
func (r *reconciler) whenServerChanges(ctx context.Context, queue worker.Queue) error {
	if r.Server.Subscribe == nil {
		return nil
	}
	worker.OnChange(ctx, r.Server.Subscribe, func() { r.queueAll(ctx, queue) })
	return nil
}

func (r *reconciler) queueAll(ctx context.Context, queue worker.Queue) {
	for _, endpoint := range r.allEndpoints(ctx, nil) {
		queue.Add(endpoint)
	}
}

func (r *reconciler) keysOfEndpoint(ctx context.Context, endpoint client.Object) []reconcile.Request {
	list := &v1alpha1.AcmeExternalKeyList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the AcmeExternalKeys of an endpoint; the controller tries again later")
		return nil
	}
	return worker.RequestsOf(list.Items, func(key *v1alpha1.AcmeExternalKey) bool { return key.Spec.Endpoint == endpoint.GetName() })
}
