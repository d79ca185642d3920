package cainject

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewReconciler returns a function that processes one target, by its kind and its name.
func NewReconciler(cfg Config) func(ctx context.Context, kind, name string) (reconcile.Result, error) {
	r := &reconciler{Config: cfg, known: map[target]*state{}}
	return func(ctx context.Context, kind, name string) (reconcile.Result, error) {
		return r.Reconcile(ctx, target{kind, name})
	}
}
