package issuers

import (
	"cmp"
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/process/eventtext"
)

type reconciler struct {
	Config
	cache   cache.Cache
	indexed bool // only work uses it
}

// new returns an empty object of the kind, which Add has checked.
func (r *reconciler) new() cmv1.GenericIssuer {
	if r.Kind == cmv1.ClusterIssuerKind {
		return &cmv1.ClusterIssuer{}
	}
	return &cmv1.Issuer{}
}

// check returns the readiness of an issuer. Times in certificates have no
// fractions of a second: what changes at a time is seen a second later.
func (r *reconciler) check(ctx context.Context, issuer cmv1.GenericIssuer, now time.Time) (issuing.Ready, error) {
	ready, err := r.Issuers.Check(ctx, issuer, now)
	if err != nil {
		r.event(issuer, corev1.EventTypeWarning, eventInit, "Error initializing issuer: "+err.Error())
	} else if r.KnowCA != nil {
		r.KnowCA(certmanager.SignerOf(issuer), ready.CA)
	}
	if !ready.Again.IsZero() {
		ready.Again = ready.Again.Add(time.Second)
	}
	return ready, err
}

// write writes a readiness into the status.
func (r *reconciler) write(ctx context.Context, issuer cmv1.GenericIssuer, ready issuing.Ready) (changed bool, err error) {
	next := issuer.DeepCopyObject().(cmv1.GenericIssuer)
	certmanager.SetIssuerCondition(next, cmv1.IssuerConditionReady, statusOf(ready), ready.Reason, ready.Message, metav1.NewTime(r.Clock.Now()))
	if ready.ACME != nil {
		next.GetStatus().ACME = ready.ACME
	}
	if apiequality.Semantic.DeepEqual(issuer.GetStatus(), next.GetStatus()) {
		return false, nil
	}
	if err := r.Client.Status().Update(ctx, next, client.FieldOwner(Component(r.Kind))); err != nil {
		return false, err
	}
	was := certmanager.IssuerCondition(issuer, cmv1.IssuerConditionReady)
	changed = was == nil || was.Status != statusOf(ready) || was.Reason != ready.Reason || was.Message != ready.Message // otherwise there is a newer spec
	if changed || was.ObservedGeneration != issuer.GetGeneration() {
		for _, w := range ready.Warnings {
			r.event(issuer, corev1.EventTypeWarning, w.Reason, w.Message)
		}
	}
	return changed, nil
}

func statusOf(v issuing.Ready) cmmeta.ConditionStatus {
	if v.OK {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

func (r *reconciler) tell(issuer cmv1.GenericIssuer, v issuing.Ready) {
	reason, message := cmp.Or(v.EventReason, v.Reason), cmp.Or(v.EventMessage, v.Message)
	switch {
	case v.OK && message != "":
		r.event(issuer, corev1.EventTypeNormal, reason, message)
	case !v.OK:
		r.event(issuer, corev1.EventTypeWarning, reason, message)
	}
	if v.Uninitialized {
		r.event(issuer, corev1.EventTypeWarning, eventInit, "Error initializing issuer: "+v.Message)
	}
	if v.Notice != "" {
		r.event(issuer, corev1.EventTypeNormal, eventNotice, v.Notice)
	}
}

// eventInit means that an issuer could not be checked, or that an object it
// needs does not exist.
const eventInit = "ErrInitIssuer"

// eventNotice is the reason of Events with information about an issuer other than its
// readiness.
const eventNotice = "Notice"

func (r *reconciler) event(issuer cmv1.GenericIssuer, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(issuer, nil, kind, reason, "Check", "%s", eventtext.Fit(text))
	}
}
