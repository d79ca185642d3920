package issuers

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/note"
)

type reconciler struct {
	Config
	cache   cache.Cache
	issuers issuertypes.Issuers
}

// conflictPause is how long to wait after another client has changed the
// object: the cache has the change by then.
const conflictPause = 500 * time.Millisecond

// new returns an empty object of the kind, which Add has checked.
func (r *reconciler) new() cmv1.GenericIssuer {
	if r.Kind == cmv1.ClusterIssuerKind {
		return &cmv1.ClusterIssuer{}
	}
	return &cmv1.Issuer{}
}

// Reconcile updates the status of one issuer.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	issuer := r.new()
	if err := r.cache.Get(ctx, key.NamespacedName, issuer); err != nil || issuer.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	v, err := r.issuers.Check(ctx, issuer, now)
	if err != nil {
		r.event(issuer, corev1.EventTypeWarning, eventInit, "Error initializing issuer: "+err.Error())
		return reconcile.Result{}, err
	}
	err = r.write(ctx, issuer, v, now)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	case v.Again.IsZero():
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(v.Again.Sub(now), 0) + time.Second}, nil
}

// write writes the verdict into the status and, if it is new, records it.
func (r *reconciler) write(ctx context.Context, issuer cmv1.GenericIssuer, v issuing.Ready, now time.Time) error {
	before := issuer.DeepCopyObject().(cmv1.GenericIssuer)
	certmanager.SetIssuerCondition(issuer, cmv1.IssuerConditionReady, statusOf(v), v.Reason, v.Message, metav1.NewTime(now))
	if apiequality.Semantic.DeepEqual(before.GetStatus(), issuer.GetStatus()) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, issuer, client.FieldOwner(Component(r.Kind))); err != nil {
		return err
	}
	was := certmanager.IssuerCondition(before, cmv1.IssuerConditionReady)
	if was != nil && was.Status == statusOf(v) && was.Reason == v.Reason && was.Message == v.Message {
		return nil // there is a newer spec, which is fine
	}
	log.FromContext(ctx).Info("Issuer has changed", "ready", v.OK, "reason", v.Reason, "message", v.Message)
	r.tell(issuer, v)
	return nil
}

func statusOf(v issuing.Ready) cmmeta.ConditionStatus {
	if v.OK {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

func (r *reconciler) tell(issuer cmv1.GenericIssuer, v issuing.Ready) {
	switch {
	case v.OK && v.Message != "":
		r.event(issuer, corev1.EventTypeNormal, v.Reason, v.Message)
	case !v.OK:
		r.event(issuer, corev1.EventTypeWarning, v.Reason, v.Message)
	}
	if v.Reason == ca.ReasonGetKeyPair {
		r.event(issuer, corev1.EventTypeWarning, eventInit, "Error initializing issuer: "+v.Message)
	}
}

// eventInit means that an issuer could not be checked, or that an object it
// needs does not exist.
const eventInit = "ErrInitIssuer"

func (r *reconciler) event(issuer cmv1.GenericIssuer, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(issuer, nil, kind, reason, "Check", "%s", note.Fit(text))
	}
}
