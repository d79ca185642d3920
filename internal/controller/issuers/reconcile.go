package issuers

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/note"
)

type reconciler struct {
	Config
	cache cache.Cache
}

// conflictPause is when to look again at what somebody else has changed: the
// cache has it by then.
const conflictPause = 500 * time.Millisecond

// new returns an empty object of the kind, which Add has looked at.
func (r *reconciler) new() cmv1.GenericIssuer {
	if r.Kind == cmv1.ClusterIssuerKind {
		return &cmv1.ClusterIssuer{}
	}
	return &cmv1.Issuer{}
}

// Reconcile makes the status of one issuer true.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	issuer := r.new()
	if err := r.cache.Get(ctx, key.NamespacedName, issuer); err != nil || issuer.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	v, err := r.check(ctx, issuer, now)
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
	case v.again.IsZero():
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(v.again.Sub(now), 0) + time.Second}, nil
}

// secretOf is the Secret that an issuer of type CA uses.
func (r *reconciler) secretOf(issuer cmv1.GenericIssuer) (types.NamespacedName, bool) {
	if certmanager.TypeOf(issuer.GetSpec()) != certmanager.TypeCA {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{
		Namespace: certmanager.SecretNamespace(issuer, r.ClusterResources), Name: issuer.GetSpec().CA.SecretName,
	}, true
}

// check judges an issuer. Its errors are those of the API and go away.
func (r *reconciler) check(ctx context.Context, issuer cmv1.GenericIssuer, now time.Time) (verdict, error) {
	if v, ok := checkType(certmanager.TypeOf(issuer.GetSpec())); ok {
		return v, nil
	}
	name, _ := r.secretOf(issuer)
	if problems := validation.IsDNS1123Subdomain(name.Name); len(problems) > 0 {
		return unready(ReasonGetKeyPair, "Error getting keypair for CA issuer: spec.ca.secretName: %q cannot be the name of a Secret: %s", name.Name, problems[0]), nil
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return checkCA(name.String(), nil, now), nil
	}
	if err != nil {
		return verdict{}, fmt.Errorf("reading secret %s: %w", name, err)
	}
	return checkCA(name.String(), secret, now), nil
}

// write puts the verdict into the status and tells of it, if it is news.
func (r *reconciler) write(ctx context.Context, issuer cmv1.GenericIssuer, v verdict, now time.Time) error {
	before := issuer.DeepCopyObject().(cmv1.GenericIssuer)
	certmanager.SetIssuerCondition(issuer, cmv1.IssuerConditionReady, v.status(), v.reason, v.message, metav1.NewTime(now))
	if apiequality.Semantic.DeepEqual(before.GetStatus(), issuer.GetStatus()) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, issuer, client.FieldOwner(Component(r.Kind))); err != nil {
		return err
	}
	was := certmanager.IssuerCondition(before, cmv1.IssuerConditionReady)
	if was != nil && was.Status == v.status() && was.Reason == v.reason && was.Message == v.message {
		return nil // it is about a newer spec, that is all
	}
	log.FromContext(ctx).Info("Issuer has changed", "ready", v.ready, "reason", v.reason, "message", v.message)
	r.tell(issuer, v)
	return nil
}

func (r *reconciler) tell(issuer cmv1.GenericIssuer, v verdict) {
	switch {
	case v.ready && v.message != "":
		r.event(issuer, corev1.EventTypeNormal, v.reason, v.message)
	case !v.ready:
		r.event(issuer, corev1.EventTypeWarning, v.reason, v.message)
	}
	if v.reason == ReasonGetKeyPair {
		r.event(issuer, corev1.EventTypeWarning, eventInit, "Error initializing issuer: "+v.message)
	}
}

// eventInit tells that an issuer could not be looked at, or what it needs is not
// there.
const eventInit = "ErrInitIssuer"

func (r *reconciler) event(issuer cmv1.GenericIssuer, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(issuer, nil, kind, reason, "Check", "%s", note.Fit(text))
	}
}
