package acmevalidate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// atOnce returns a function that starts an attempt before the order records the client's
// response. Its outcome is recorded even if the caller stops waiting.
func (r *reconciler) atOnce(ctx context.Context) attempts.Try {
	return func(o *v1alpha1.AcmeOrder, at acmeorder.Position) *attempts.Attempt {
		key := client.ObjectKeyFromObject(o)
		mine := r.begin(key, []acmeorder.Position{at})
		if len(mine) == 0 {
			return nil
		}
		with, err := r.prepare(ctx, o)
		if err != nil { // the usual way says why
			r.forget(key, mine)
			return nil
		}
		o = o.DeepCopy()
		attempt := attempts.NewAttempt()
		r.running.Go(func() {
			of, ok := r.attempt(ctx, o, at, with)
			if !ok {
				return // the next leader goes on
			}
			waiting := attempt.End(attempts.Outcome{
				Record: func(o *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
					return acmeorder.RecordAttempt(o, at, of.attempt(), with.endpoint.Spec(), r.Clock.Now())
				},
				Stored: func(o *v1alpha1.AcmeOrder) {
					if o != nil && of.result.Problem != nil && o.Status.Authorizations[at.Authorization].State == rfc8555.StateInvalid {
						r.event(o, of)
					}
					r.end(reconcile.Request{NamespacedName: key}, mine, false)
				},
			})
			if waiting {
				return
			}
			err := r.record(ctx, key, with.endpoint, []outcome{of})
			if err != nil {
				log.FromContext(ctx).Error(err, "Cannot record the outcome of a validation; trying again", "order", key)
			}
			r.end(reconcile.Request{NamespacedName: key}, mine, err != nil)
		})
		return attempt
	}
}
