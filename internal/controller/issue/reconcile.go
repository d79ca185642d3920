package issue

import (
	"context"
	"crypto"
	"errors"
	"sync/atomic"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

type reconciler struct {
	*controller
	objects cache.Cache // Certificates and their requests
	keys    cache.Cache // the metadata of Secrets with keys for next certificates
	sights  *sights
	order   order
	rsa     *rsaKeys
	// revoked are the known revocations; nil until they were read.
	revoked atomic.Pointer[revocation.Index]
}

const (
	// conflictPause is how long to wait after another client has changed the
	// object: the cache has the change by then.
	conflictPause = 300 * time.Millisecond
	// lookEvery is the interval at which the controller checks a waiting Certificate,
	// regardless of events.
	lookEvery = 3 * time.Minute
)

// errChanged means that the Certificate has changed since the decision about
// it.
var errChanged = errors.New("the Certificate has changed since it was read")

// pass is one reconciliation of a Certificate. The steps change the status of Certificate
// in memory, and flush writes it: usually once, at the end.
type pass struct {
	*reconciler
	issuance.Situation
	now time.Time
	// stored is Certificate as the API has it; writer is the actor that writes the
	// status if that differs.
	stored *cmv1.Certificate
	writer actor
	// requests are the requests that name the Certificate or are owned by it; nextKeys are
	// the Secrets with keys for its next certificate.
	requests []*cmv1.CertificateRequest
	nextKeys []*corev1.Secret
	// key is the key of the next certificate, once nextKey has read it.
	key crypto.Signer
	// confirmed is when Certificate was known to be the latest.
	confirmed time.Time
	// news are the Events to record once the status has been written; opening are
	// those about the begin of an issuance, which become one.
	news, opening []notice
	// requeueAt is when to look again at the latest; zero means when something
	// changes.
	requeueAt time.Time
	// isLook is set if sights remember this pass: it does all that is due. If it has
	// not, unsettled is set: its own writes wake another one.
	isLook, unsettled bool
}

// step does one thing. It reports whether the pass ends with it: later steps
// depend on something that only the next pass sees.
type step func(*pass, context.Context) (ends bool, err error)

// steps are the steps for a Certificate, in this order.
var steps = []step{
	(*pass).restoreRevision,
	(*pass).finish,
	(*pass).hold,
	(*pass).tellReadiness,
	(*pass).adopt,
	(*pass).release,
	(*pass).start,
	(*pass).keepKey,
	(*pass).request,
	(*pass).issue,
	(*pass).maintain,
	(*pass).deleteSurplus,
}

// Reconcile takes the next steps of one Certificate.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	crt := &cmv1.Certificate{}
	if err := r.objects.Get(ctx, key.NamespacedName, crt); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !crt.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	cached, err := r.relatives(ctx, crt)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch what, next := r.sights.judge(key.NamespacedName, cached.versions, r.Clock.Now()); what {
	case isSeen:
		return next, nil
	case isLate:
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	result, err := r.pass(ctx, crt, cached)
	if err != nil || result.RequeueAfter == conflictPause {
		r.sights.forget(key.NamespacedName)
	}
	return result, err
}

// pass reads a Certificate and takes its next steps.
func (r *reconciler) pass(ctx context.Context, crt *cmv1.Certificate, cached relatives) (reconcile.Result, error) {
	defer r.rsa.cores.use()()
	key := client.ObjectKeyFromObject(crt)
	r.sights.begin(key, cached.versions)
	t, err := r.look(ctx, crt, cached)
	if err != nil {
		return reconcile.Result{}, err
	}
	if t.isLook = true; t.Secret != nil {
		t.saw(t.Secret.ResourceVersion)
	}
	switch err := t.runSteps(ctx); {
	case errors.Is(err, errNoKeyYet):
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	case errors.Is(err, errChanged), apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case worker.IsTooLate(err):
		log.FromContext(ctx).V(1).Info("Nothing to do for an object that is being deleted", "error", err.Error())
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	isCalm := !isIssuing(t.Certificate)
	if !t.unsettled {
		r.sights.end(key, t.stored.ResourceVersion, t.requeueAt, isCalm)
	}
	return lookAgain(t.requeueAt, t.now, isCalm), nil
}

// runSteps runs the steps, and writes the status that results. If a step fails, the status
// is written nevertheless, so that the next pass continues from there: unless the
// Certificate was replaced since it was read.
func (t *pass) runSteps(ctx context.Context) error {
	for _, step := range steps {
		ends, err := step(t, ctx)
		switch {
		case errors.Is(err, errNoKeyYet), errors.Is(err, errChanged), apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return err
		case ends, err != nil:
			return errors.Join(err, t.flush(ctx))
		}
	}
	return t.flush(ctx)
}

// requeueBy makes the next look come by at, unless at is zero.
func (t *pass) requeueBy(at time.Time) {
	if !at.IsZero() && (t.requeueAt.IsZero() || at.Before(t.requeueAt)) {
		t.requeueAt = at
	}
}
