package acmeorders

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

// noteEvery is the shortest time between two looks for revoked certificates of orders, and
// the wait after an error.
const noteEvery = time.Second

// noteRevoked notes in orders that their certificates are revoked, until ctx ends.
func (r *reconciler) noteRevoked(ctx context.Context) {
	r.Revoked.Follow(ctx, func() {
		for {
			err := r.noteAll(ctx)
			if err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Cannot note revocations in all AcmeOrders, trying again")
			}
			if !worker.Sleep(ctx, noteEvery) || err == nil {
				return
			}
		}
	})
}

func (r *reconciler) noteAll(ctx context.Context) error {
	list := &v1alpha1.AcmeOrderList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the AcmeOrders: %w", err)
	}
	var failed error
	for i := range list.Items {
		if o := &list.Items[i]; r.revoked(o) != nil {
			if err := r.note(ctx, client.ObjectKeyFromObject(o)); client.IgnoreNotFound(err) != nil {
				failed = err
			}
		}
	}
	return failed
}

// revoked returns the status of an order whose certificate is revoked; nil if nothing is to be
// noted. What the ACME server revokes for a client, it notes itself: its answer depends on that.
func (r *reconciler) revoked(o *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
	if o.Status.Certificate == nil {
		return nil
	}
	digest, ok := revocation.ParseDigest(o.Status.Certificate.Digest)
	if !ok {
		return nil
	}
	by, ok := r.Revoked.Fingerprint(digest)
	if !ok || by.By.User == r.Server {
		return nil
	}
	return acmeorder.NoteRevoked(o, by.Reason, by.By.User, by.Time)
}

// note notes that the certificate of an order is revoked.
func (r *reconciler) note(ctx context.Context, key client.ObjectKey) error {
	o := &v1alpha1.AcmeOrder{}
	if err := r.Client.Get(ctx, key, o); err != nil {
		return err
	}
	status := r.revoked(o)
	if status == nil {
		return nil
	}
	o.Status = *status
	if err := r.Client.Status().Update(ctx, o, client.FieldOwner(Name)); err != nil {
		return err
	}
	if r.Events != nil {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, "Revoked", "Revoke", "the certificate %s is revoked by %s, for the reason %s",
			o.Status.Certificate.Serial, o.Status.Certificate.Revoked.By, acmeorder.ReasonText(o.Status.Certificate.Revoked.Reason))
	}
	return nil
}
