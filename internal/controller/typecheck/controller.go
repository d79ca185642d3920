// Package typecheck reports expressions that do not match the types of their resources in
// the status of validating admission policies.
package typecheck

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apply "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// manager owns the status, under the name that it has in Kubernetes.
const manager = "validatingadmissionpolicy-status-controller"

// Config is the configuration of the controller.
type Config struct {
	// Client writes the status as the controller's own identity.
	Client client.Client
	// Policies is the cache from which policies are read.
	Policies cache.Cache
	// Check returns what is wrong with the types of a policy's expressions, as
	// far as the types are known now.
	Check func(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning
}

// Add registers the controller with mgr.
func Add(mgr ctrl.Manager, cfg Config) error {
	policies := source.Kind(cfg.Policies, &admissionv1.ValidatingAdmissionPolicy{},
		&handler.TypedEnqueueRequestForObject[*admissionv1.ValidatingAdmissionPolicy]{})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("typecheck").
		WatchesRawSource(policies).
		Complete(&reconciler{cfg})
	if err != nil {
		return fmt.Errorf("building the type check controller: %w", err)
	}
	return nil
}

type reconciler struct{ Config }

// Reconcile checks each generation of a policy once.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var policy admissionv1.ValidatingAdmissionPolicy
	if err := r.Policies.Get(ctx, request.NamespacedName, &policy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if policy.Generation <= policy.Status.ObservedGeneration {
		return reconcile.Result{}, nil
	}
	status := status(policy.Name, policy.Generation, r.Check(&policy))
	err := r.Client.Status().Apply(ctx, status, client.FieldOwner(manager), client.ForceOwnership)
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

func status(name string, generation int64, warnings []admissionv1.ExpressionWarning) *apply.ValidatingAdmissionPolicyApplyConfiguration {
	checked := apply.TypeChecking()
	for _, warning := range warnings {
		checked.WithExpressionWarnings(apply.ExpressionWarning().WithFieldRef(warning.FieldRef).WithWarning(warning.Warning))
	}
	return apply.ValidatingAdmissionPolicy(name).WithStatus(
		apply.ValidatingAdmissionPolicyStatus().WithObservedGeneration(generation).WithTypeChecking(checked))
}
