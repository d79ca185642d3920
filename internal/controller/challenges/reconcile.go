package challenges

import (
	"context"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/challenge"
)

const (
	// slotPause is the time between two checks of a Challenge that waits for a slot. A
	// granted slot wakes it earlier; this pause is for places that become free by the
	// passing of time.
	slotPause = 30 * time.Second
	// stalePause is how long to wait for an outdated cache.
	stalePause = 200 * time.Millisecond
)

// Reconcile takes the next steps of a Challenge.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ch := &acmev1.Challenge{}
	err := r.objects.Get(ctx, request.NamespacedName, ch)
	if apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the Challenge %s: %w", request, err)
	}
	s := r.situation(ch)
	plan := s.Next()
	if !r.mayBegin(s, plan) {
		return r.again(s, plan), nil
	}
	return r.act(ctx, s)
}

// situation returns the inputs of decisions about a Challenge.
func (r *reconciler) situation(ch *acmev1.Challenge) challenge.Situation {
	key := client.ObjectKeyFromObject(ch)
	issuer := issuerOf(ch)
	fresh := entry{uid: ch.UID, place: challenge.PlaceOf(ch).Name, issuer: issuer}
	for _, name := range challenge.SecretNames(&ch.Spec.Solver) {
		fresh.secrets = append(fresh.secrets, types.NamespacedName{Namespace: r.secretsOf(ch), Name: name})
	}
	now := r.Clock.Now()
	memory, gone := r.memories.of(key, fresh, now)
	if gone != "" {
		r.slots.leave(key, gone)
	}
	return challenge.Situation{Challenge: ch, Memory: memory, Now: now, Rules: r.Settings.rules(), Jitter: r.Jitter}
}

// mayBegin reports whether the next step is due and has the slot that it needs.
func (r *reconciler) mayBegin(s challenge.Situation, plan challenge.Plan) bool {
	r.settle(s, plan)
	return plan.Due(s.Now) && (!plan.NeedsSlot || r.slots.take(s.Candidate()))
}

// settle releases the slot and the place that the next step of a Challenge does not need.
func (r *reconciler) settle(s challenge.Situation, plan challenge.Plan) {
	key := client.ObjectKeyFromObject(s.Challenge)
	switch {
	case plan.Step == challenge.Nothing:
		r.slots.leave(key, challenge.PlaceOf(s.Challenge).Name)
	case !plan.KeepsSlot && (!plan.NeedsSlot || !plan.Due(s.Now)):
		r.slots.release(key)
	}
}

// again returns when to reconcile a Challenge again.
func (r *reconciler) again(s challenge.Situation, plan challenge.Plan) reconcile.Result {
	switch {
	case plan.Step == challenge.Nothing:
		return reconcile.Result{}
	case plan.Due(s.Now):
		return reconcile.Result{RequeueAfter: slotPause + r.Jitter(slotPause)}
	}
	return reconcile.Result{RequeueAfter: max(plan.At.Sub(s.Now), time.Millisecond)}
}

// act takes the due steps. The cache may be outdated, so steps with effects outside the API
// are decided from the current Challenge.
func (r *reconciler) act(ctx context.Context, s challenge.Situation) (reconcile.Result, error) {
	latest := &acmev1.Challenge{}
	key := client.ObjectKeyFromObject(s.Challenge)
	err := r.Client.Get(ctx, key, latest)
	if apierrors.IsNotFound(err) || (err == nil && latest.UID != s.Challenge.UID) {
		r.slots.release(key)
		return reconcile.Result{RequeueAfter: stalePause}, nil
	}
	if err != nil {
		r.slots.release(key)
		return reconcile.Result{}, fmt.Errorf("reading the Challenge %s: %w", key, err)
	}
	s.Challenge = latest
	p := &pass{reconciler: r, situation: s, stored: latest.Status}
	err = p.run(ctx)
	r.memories.put(key, latest.UID, p.situation.Memory)
	return r.afterPass(ctx, p, err)
}

// afterPass returns when to reconcile a Challenge again after a pass.
func (r *reconciler) afterPass(ctx context.Context, p *pass, err error) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(p.situation.Challenge)
	switch {
	case err == nil && p.gone:
		r.slots.leave(key, challenge.PlaceOf(p.situation.Challenge).Name)
		return reconcile.Result{}, nil
	case ctx.Err() != nil, apierrors.IsConflict(err), apierrors.IsNotFound(err): // the next pass, or leader, goes on
		r.slots.release(key)
		return reconcile.Result{RequeueAfter: stalePause}, nil
	case err != nil:
		r.slots.release(key)
		return reconcile.Result{}, err
	}
	s := p.situation
	s.Now = r.Clock.Now()
	plan := s.Next()
	r.settle(s, plan)
	if plan.Due(s.Now) {
		return reconcile.Result{RequeueAfter: stalePause}, nil
	}
	return r.again(s, plan), nil
}

// forget removes the memory of a deleted Challenge.
func (r *reconciler) forget(key types.NamespacedName) {
	r.slots.leave(key, r.memories.forget(key))
}

// issuerOf returns the address of the issuer of a Challenge.
func issuerOf(ch *acmev1.Challenge) issuerKey {
	key := issuerKey{Name: ch.Spec.IssuerRef.Name}
	if certmanager.IssuerKind(ch.Spec.IssuerRef) == cmv1.IssuerKind {
		key.Namespace = ch.Namespace
	}
	return key
}

// secretsOf returns the namespace of the Secrets that a solver reads.
func (r *reconciler) secretsOf(ch *acmev1.Challenge) string {
	if issuer := issuerOf(ch); issuer.Namespace != "" {
		return issuer.Namespace
	}
	return r.ClusterResources
}
