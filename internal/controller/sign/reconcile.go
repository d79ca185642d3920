package sign

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/signer"
)

type reconciler struct {
	ours   func(signerName string) bool
	sign   signer.Sign
	cache  client.Reader
	client client.Client
	clock  clock.PassiveClock
	report reporter
}

// Reconcile answers one request, if it waits for an answer.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &csr{}
	if err := r.cache.Get(ctx, req.NamespacedName, c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.awaits(c) {
		return r.await(c), nil
	}
	if !actionable(c, r.ours) {
		return reconcile.Result{}, nil
	}
	start := r.clock.Now()
	issued, err := r.sign(ctx, request(c), start)
	signed := r.clock.Now()
	o := decide(issued, err, start)
	if o.on(c) {
		return result(o, nil)
	}
	err = r.store(ctx, c, o)
	r.report.outcome(ctx, c, o, err, times{start: start, signed: signed, end: r.clock.Now()})
	return result(o, err)
}

// awaits tells whether somebody is to be told that a request has no approval.
func (r *reconciler) awaits(c *csr) bool {
	return r.report.awaitedEvent != "" && undecided(c, r.ours)
}

// await tells that a request needs an approval.
func (r *reconciler) await(c *csr) reconcile.Result {
	if wait := c.CreationTimestamp.Add(requests.Patience).Sub(r.clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.report.awaited(c)
	return reconcile.Result{}
}

// result tells the queue what to do. A conflict is nobody's fault and no news.
func result(o outcome, stored error) (reconcile.Result, error) {
	switch {
	case errors.Is(stored, errSuperseded):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(stored):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case stored == nil && o.after > 0:
		return reconcile.Result{RequeueAfter: o.after}, nil
	default:
		return reconcile.Result{}, errors.Join(stored, o.retry)
	}
}

// errSuperseded says that a request has no use for an outcome any more: it
// has been deleted or decided otherwise.
var errSuperseded = errors.New("the request does not wait any more")

// maxConflicts bounds the attempts to store one outcome. Each conflict means
// that somebody else got a change through meanwhile.
const maxConflicts = 10

// store puts the outcome on the request. A certificate costs a signature of
// the CA and shall not be lost because somebody else wrote to the object: on a
// conflict the same outcome is tried again on the object as it is now.
func (r *reconciler) store(ctx context.Context, c *csr, o outcome) error {
	var err error
	for range maxConflicts {
		err = r.client.Status().Update(ctx, o.apply(c))
		if err == nil {
			return nil
		}
		latest, reason := r.recheck(ctx, c, err)
		switch {
		case reason != nil:
			return reason
		case o.on(latest):
			return nil // stored, but the answer got lost or came late
		case !actionable(latest, r.ours):
			return errSuperseded
		case !apierrors.IsConflict(err):
			return fmt.Errorf("writing the status: %w", err)
		}
		c = latest
	}
	return err
}

// recheck looks, past the cache, at what has become of a request after a
// write has failed for the given cause.
func (r *reconciler) recheck(ctx context.Context, c *csr, cause error) (*csr, error) {
	latest := &csr{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(c), latest)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errSuperseded
	case err != nil:
		return nil, fmt.Errorf("looking at the request again after %v: %w", cause, err)
	case latest.UID != c.UID:
		return nil, errSuperseded // another request by the same name
	}
	return latest, nil
}
