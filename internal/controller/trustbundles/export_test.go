package trustbundles

import "sigs.k8s.io/controller-runtime/pkg/reconcile"

// NewReconciler returns a reconciler that does not watch anything.
func NewReconciler(cfg Config) reconcile.Reconciler {
	r := newReconciler(cfg)
	r.bundles = cfg.Client
	return r
}
