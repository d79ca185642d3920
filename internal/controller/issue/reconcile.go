package issue

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/issuance"
)

type reconciler struct {
	*controller
	objects cache.Cache // Certificates and their requests
	keys    cache.Cache // the metadata of Secrets with keys for next certificates
}

const (
	// conflictPause is how long to wait after another client has changed the
	// object: the cache has the change by then.
	conflictPause = 300 * time.Millisecond
	// lookEvery is how often the controller looks at a waiting Certificate,
	// whatever events it gets.
	lookEvery = 3 * time.Minute
)

// errChanged means that the Certificate has changed since the decision about
// it.
var errChanged = errors.New("the Certificate has changed meanwhile")

// pass is one look at a Certificate, and what is done in it.
type pass struct {
	*reconciler
	issuance.Situation
	now time.Time
	// requests are those that name the Certificate or are owned by it; nextKeys
	// are the Secrets with keys for its next certificate.
	requests []*cmv1.CertificateRequest
	nextKeys []*corev1.Secret
	// key is the key of the next certificate, once nextKey has read it.
	key crypto.Signer
	// written means that this pass has written Certificate.
	written bool
	// requeueAt is when to look again at the latest; zero means when something
	// changes.
	requeueAt time.Time
}

// step does one thing. It reports whether it has changed anything that later
// steps depend on: they then have to wait for the next pass.
type step func(*pass, context.Context) (changed bool, err error)

// steps are the steps for a Certificate, in this order.
var steps = []step{
	(*pass).restoreRevision,
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

// Reconcile does what is due for one Certificate.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	crt := &cmv1.Certificate{}
	if err := r.objects.Get(ctx, key.NamespacedName, crt); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !crt.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	t, err := r.look(ctx, crt)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch err := t.runSteps(ctx); {
	case errors.Is(err, errChanged), apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		log.FromContext(ctx).V(1).Info("Nothing to do for an object that is being deleted", "error", err.Error())
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: t.lookAgain()}, nil
}

func (t *pass) runSteps(ctx context.Context) error {
	for _, step := range steps {
		if changed, err := step(t, ctx); changed || err != nil {
			return err
		}
	}
	return nil
}

// requeueBy makes the next look come by at, unless at is zero.
func (t *pass) requeueBy(at time.Time) {
	if !at.IsZero() && (t.requeueAt.IsZero() || at.Before(t.requeueAt)) {
		t.requeueAt = at
	}
}

// lookAgain returns the time until the next look; 0 means never.
func (t *pass) lookAgain() time.Duration {
	if t.requeueAt.IsZero() {
		return 0
	}
	return max(t.requeueAt.Sub(t.now), time.Millisecond)
}

// setStatus changes the Certificate's status as an actor. If that changes
// nothing, it writes nothing. It returns a conflict if another client was
// faster.
func (t *pass) setStatus(ctx context.Context, who actor, change func(*cmv1.Certificate)) (changed bool, err error) {
	before := t.Certificate
	after := before.DeepCopy()
	change(after)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false, nil
	}
	// This is not a patch: for a patch, the API server encodes and decodes the
	// whole object.
	if err := t.Client.Status().Update(ctx, after, client.FieldOwner(who)); err != nil {
		return false, fmt.Errorf("writing the status of Certificate %s/%s: %w", before.Namespace, before.Name, err)
	}
	t.Certificate, t.written = after, true
	return true, nil
}

// unchanged returns an error unless the Certificate in the API is the same as
// when this pass began. It must be called before anything that cannot be
// undone, since caches are late. A Certificate that this pass has written was
// the latest, or the write would have failed.
func (t *pass) unchanged(ctx context.Context) error {
	if t.written {
		return nil
	}
	latest := &metav1.PartialObjectMetadata{}
	latest.SetGroupVersionKind(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind))
	err := t.Client.Get(ctx, client.ObjectKeyFromObject(t.Certificate), latest)
	if err == nil && (latest.UID != t.Certificate.UID || latest.ResourceVersion != t.Certificate.ResourceVersion) {
		return errChanged
	}
	return err
}
