package requestsign

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// conflictPause is when to look again at what somebody else has changed: the
// cache has it by then.
const conflictPause = 500 * time.Millisecond

// Reconcile takes one request a step further.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	cr := &cmv1.CertificateRequest{}
	if err := r.cache.Get(ctx, key.NamespacedName, cr); err != nil {
		r.waiting.forget(key.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch requests.Due(cr) {
	case requests.Deny:
		return r.put(ctx, cr, answer{outcome: denied})
	case requests.Await:
		return r.await(cr), nil
	case requests.Elsewhere:
		return r.hint(cr), nil
	case requests.Sign:
		a, err := r.answer(ctx, cr)
		if err != nil {
			return reconcile.Result{}, err
		}
		return r.put(ctx, cr, a)
	}
	r.waiting.forget(key.NamespacedName)
	return reconcile.Result{}, nil
}

// await tells that a request needs an approval.
func (r *reconciler) await(cr *cmv1.CertificateRequest) reconcile.Result {
	if wait := cr.CreationTimestamp.Add(requests.Patience).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.event(cr, certmanager.NoType, corev1.EventTypeNormal, EventAwaits,
		"Not signing CertificateRequest until it is Approved: "+decideByHand(cr))
	return reconcile.Result{}
}

// hint tells of a request that somebody else answers, once that takes long: what
// it takes is easily forgotten when an issuer is installed.
func (r *reconciler) hint(cr *cmv1.CertificateRequest) reconcile.Result {
	since, what := cr.CreationTimestamp.Time, "Nobody has approved it: "+decideByHand(cr)
	if approved := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved); approved != nil {
		if approved.LastTransitionTime != nil {
			since = approved.LastTransitionTime.Time
		}
		what = fmt.Sprintf("It is approved, and nothing has answered it: the program that signs for issuers of the group %s has to. Does it run?",
			certmanager.IssuerGroup(cr.Spec.IssuerRef))
	}
	if wait := since.Add(requests.Patience).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.event(cr, certmanager.NoType, corev1.EventTypeNormal, EventElsewhere, what)
	return reconcile.Result{}
}

func decideByHand(cr *cmv1.CertificateRequest) string {
	return fmt.Sprintf("somebody who may has to, with 'certplane approve -n %[1]s %[2]s' or 'certplane deny -n %[1]s %[2]s'", cr.Namespace, cr.Name)
}

// answer is an outcome and who it is from.
type answer struct {
	outcome
	// signer is the issuer's name in metrics, by the type of which it answers.
	signer string
	by     certmanager.IssuerType
	// start and signed are when the work on it began, and when there was an
	// answer.
	start, signed time.Time
}

// answer asks the issuer. Its errors are those of the API and go away.
func (r *reconciler) answer(ctx context.Context, cr *cmv1.CertificateRequest) (answer, error) {
	ref := cr.Spec.IssuerRef
	who := certmanager.Signer{Kind: certmanager.IssuerKind(ref), Name: ref.Name}
	if who.Kind == cmv1.IssuerKind {
		who.Namespace = cr.Namespace
	}
	a := answer{signer: who.String(), start: r.Clock.Now()}
	found, err := r.issuers.find(ctx, who)
	if err != nil {
		return a, err
	}
	if o := requests.ObstacleOf(found, who); !o.None() {
		a.outcome = pending(o.Reason, "%s", o.Message)
		return a, nil
	}
	a.by = certmanager.TypeOf(found.GetSpec())
	a.outcome = decide(r.sign(ctx, cr, found, a.start))
	a.signed = r.Clock.Now()
	return a, nil
}

func (r *reconciler) sign(ctx context.Context, cr *cmv1.CertificateRequest, found cmv1.GenericIssuer, now time.Time) (*issuer.Issued, error) {
	req, err := issuer.RequestOf(cr)
	if err != nil {
		return nil, signer.Permanent(signer.ReasonInvalidRequest, err)
	}
	const annotation = cmv1.CertificateRequestPrivateKeyAnnotationKey
	key := keyOf{annotation: annotation, secret: types.NamespacedName{Namespace: cr.Namespace, Name: cr.Annotations[annotation]}}
	r.waiting.put(client.ObjectKeyFromObject(cr), r.issuers.secretOf(found, key))
	return r.issuers.sign(ctx, found, req, key, now)
}

// put writes an answer, unless the request has it already.
func (r *reconciler) put(ctx context.Context, cr *cmv1.CertificateRequest, a answer) (reconcile.Result, error) {
	if !a.on(cr) {
		err := r.store(ctx, cr, a)
		r.report(ctx, cr, a, err)
		switch {
		case errors.Is(err, errSuperseded):
			return reconcile.Result{}, nil
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: conflictPause}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	if a.final() {
		r.waiting.forget(client.ObjectKeyFromObject(cr))
	}
	return reconcile.Result{}, a.retry
}

// errSuperseded says that a request has no use for an outcome any more: it has
// been deleted or answered otherwise.
var errSuperseded = errors.New("the request does not wait any more")

// maxConflicts bounds the attempts to store one outcome. Each conflict means
// that somebody else got a change through meanwhile.
const maxConflicts = 10

// store puts the outcome on the request in one write, which holds only if nobody
// has written since: no request gets two certificates, and no decision is lost.
// On a conflict the same outcome is tried again on the request as it is now, if
// it still waits: a signature of the CA shall not be lost.
func (r *reconciler) store(ctx context.Context, cr *cmv1.CertificateRequest, a answer) error {
	due := requests.Due(cr)
	var err error
	for range maxConflicts {
		err = r.write(ctx, a.apply(cr, r.Clock.Now()), client.FieldOwner(Component(a.by)))
		if err == nil {
			return nil
		}
		latest, reason := r.recheck(ctx, cr, err)
		switch {
		case reason != nil:
			return reason
		case a.on(latest):
			return nil // stored, but the answer got lost or came late
		case requests.Due(latest) != due:
			return errSuperseded
		case !apierrors.IsConflict(err):
			return fmt.Errorf("writing the status: %w", err)
		}
		cr = latest
	}
	return err
}

// recheck looks, past the cache, at what has become of a request after a write
// has failed for the given cause.
func (r *reconciler) recheck(ctx context.Context, cr *cmv1.CertificateRequest, cause error) (*cmv1.CertificateRequest, error) {
	latest := &cmv1.CertificateRequest{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(cr), latest)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errSuperseded
	case err != nil:
		return nil, fmt.Errorf("looking at the request again after %v: %w", cause, err)
	case latest.UID != cr.UID:
		return nil, errSuperseded // another request by the same name
	}
	return latest, nil
}
