package acmeorders

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// atOnce creates the request of an order before the ACME server stores the order as
// processing. The name of the request follows from that of the order: after a crash, the
// order is still ready, and the client's next attempt finds the request. Orders that wait for
// people go the usual way, because a request without an order must not wait for them.
func (r *reconciler) atOnce(ctx context.Context, o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, func()) {
	if !r.places.TryAcquire(1) {
		return nil, nil
	}
	defer r.places.Release(1)
	endpoint, err := r.facts.Endpoint(ctx, o.Spec.Endpoint)
	if err != nil || !acmeorder.NeedsNoPerson(endpoint.Spec()) {
		return nil, nil
	}
	p := &pass{reconciler: r, o: o.DeepCopy()}
	if _, err := p.follow(ctx, endpoint); err != nil || !p.changed {
		log.FromContext(ctx).V(1).Info("Cannot create the request of an order at once", "order", o.Name, "err", err)
		return nil, nil
	}
	return &p.o.Status, p.tell
}
