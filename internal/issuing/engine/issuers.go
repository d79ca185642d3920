package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// Issuers keeps the condition Ready of the issuers of one kind up to date. I is
// the type of the issuers.
type Issuers[I client.Object] struct {
	Work
	// Cache has the issuers.
	Cache cache.Cache
	Clock clock.PassiveClock
	// New returns an empty issuer.
	New func() I
	// Changes are the events of an issuer after which it is checked.
	Changes predicate.Predicate

	// Check returns the readiness of an issuer, which it must not modify. After an error,
	// the status is not written, and it is called again.
	Check func(ctx context.Context, of I, now time.Time) (issuing.Ready, error)
	// Write stores a readiness if the issuer does not show it. It reports
	// whether the issuer said something else before. It fails with a conflict if
	// the issuer has changed since it was read.
	Write func(ctx context.Context, of I, ready issuing.Ready) (changed bool, err error)
	// Tell records Events about a readiness that is new.
	Tell func(of I, ready issuing.Ready)
	// Forget, if not nil, is called for an issuer that was deleted.
	Forget func(types.NamespacedName)
}

// Run checks issuers until ctx ends.
func (i *Issuers[I]) Run(ctx context.Context) error {
	return i.run(ctx, i, source.Kind[client.Object](i.Cache, i.New(), &handler.EnqueueRequestForObject{}, i.Changes))
}

// Reconcile checks one issuer.
func (i *Issuers[I]) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	issuer := i.New()
	err := i.Cache.Get(ctx, key.NamespacedName, issuer)
	if apierrors.IsNotFound(err) && i.Forget != nil {
		i.Forget(key.NamespacedName)
	}
	if err != nil || issuer.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := i.Clock.Now()
	ready, err := i.Check(ctx, issuer, now)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return reconcile.Result{}, nil // the next leader checks again
	case err != nil:
		return reconcile.Result{}, err
	}
	changed, err := i.Write(ctx, issuer, ready)
	if changed && err == nil {
		log.FromContext(ctx).Info("Issuer has changed", "ready", ready.OK, "reason", ready.Reason, "message", eventtext.Line(ready.Message))
		i.Tell(issuer, ready)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: outcome.ConflictPause}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	case ready.Retry != nil:
		return reconcile.Result{}, fmt.Errorf("the issuer is not ready: %w", ready.Retry)
	case ready.Again.IsZero():
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(ready.Again.Sub(now), 1)}, nil
}
