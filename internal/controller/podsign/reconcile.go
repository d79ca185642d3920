package podsign

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/signer/declared"
)

// reconciler answers requests of one version of the API.
type reconciler struct {
	*controller
	version string
	objects client.Reader // the cache
}

// signerOf returns the signer that a request is for, or nil.
func (r *reconciler) signerOf(req *request) *declared.Signer {
	signer := r.Signers.Find(req.Spec.SignerName)
	if signer == nil || !signer.Serves(v1alpha1.PodCertificateRequests) {
		return nil
	}
	return signer
}

// Reconcile answers one request, if it waits for an answer.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	object := newObject(r.version)
	if err := r.objects.Get(ctx, key.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	req := fromAPI(object)
	signer := r.signerOf(req)
	if signer == nil || !pending(req) {
		return reconcile.Result{}, nil
	}
	start := r.Clock.Now()
	issued, err := r.sign(ctx, req, signer, start)
	signed := r.Clock.Now()
	o := decide(issued, err, start)
	if signer.Unready != nil {
		o.after = lastPause // it tells when it is ready
	}
	if o.retry != nil {
		r.delayed(ctx, req, o)
		return later(o)
	}
	err = r.store(ctx, req, o)
	r.answered(ctx, req, signer, o, err, times{start: start, signed: signed, end: r.Clock.Now()})
	return result(err)
}

func (r *reconciler) sign(ctx context.Context, req *request, signer *declared.Signer, now time.Time) (*declared.Issued, error) {
	if signer.Unready != nil {
		return signer.Sign(ctx, noFacts, now)
	}
	facts, err := r.facts(ctx, req, signer)
	if err != nil {
		return nil, err
	}
	return signer.Sign(ctx, facts, now)
}

// later has a request tried again.
func later(o outcome) (reconcile.Result, error) {
	if o.after > 0 {
		return reconcile.Result{RequeueAfter: o.after}, nil
	}
	return reconcile.Result{}, o.retry
}

// result tells the queue what to do after a write. A conflict is nobody's
// fault and no news.
func result(stored error) (reconcile.Result, error) {
	switch {
	case errors.Is(stored, errSuperseded):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(stored):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	default:
		return reconcile.Result{}, stored
	}
}

// errSuperseded says that a request has no use for an outcome any more: it
// has been deleted or answered otherwise.
var errSuperseded = errors.New("the request does not wait any more")

// maxConflicts bounds the attempts to store one outcome. Each conflict means
// that somebody else got a change through meanwhile.
const maxConflicts = 10

// store puts the outcome on the request in one write, which holds only if
// nobody has written since: no request gets two certificates, however many
// signers there are. On a conflict the same outcome is tried again on the
// request as it is now, if it still waits.
func (r *reconciler) store(ctx context.Context, req *request, o outcome) error {
	var err error
	for range maxConflicts {
		err = r.Client.Status().Update(ctx, toAPI(o.apply(req), r.version))
		if err == nil {
			return nil
		}
		latest, reason := r.recheck(ctx, req, err)
		switch {
		case reason != nil:
			return reason
		case o.on(latest):
			return nil // stored, but the answer got lost or came late
		case !pending(latest):
			return errSuperseded
		case !apierrors.IsConflict(err):
			return fmt.Errorf("writing the status: %w", err)
		}
		req = latest
	}
	return err
}

// recheck looks, past the cache, at what has become of a request after a
// write has failed for the given cause.
func (r *reconciler) recheck(ctx context.Context, req *request, cause error) (*request, error) {
	object := newObject(r.version)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(req), object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errSuperseded
	case err != nil:
		return nil, fmt.Errorf("looking at the request again after %v: %w", cause, err)
	case object.GetUID() != req.UID:
		return nil, errSuperseded // another request by the same name
	}
	return fromAPI(object), nil
}
