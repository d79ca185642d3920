package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// Reconcile adds what is missing in the bootstrap roles and bindings: the
// objects, their rules and their subjects. It keeps what users have added, and
// does not change an object whose autoupdate annotation is "false". Several
// servers may call it at the same time.
func Reconcile(ctx context.Context, client kubernetes.Interface) error {
	for _, role := range ClusterRoles() {
		options := reconciliation.ReconcileRoleOptions{
			Role:    reconciliation.ClusterRoleRuleOwner{ClusterRole: role},
			Client:  reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()},
			Confirm: true,
		}
		if err := retryOnConflict(ctx, func() error { _, err := options.Run(); return err }); err != nil {
			return fmt.Errorf("reconciling ClusterRole %s: %w", role.Name, err)
		}
	}
	if err := reconcileNamespaced(ctx, client); err != nil {
		return err
	}
	if err := primeBinding(ctx, client, "system:public-info-viewer", "system:discovery"); err != nil {
		return err
	}
	return reconcileBindings(ctx, client, ClusterRoleBindings())
}

// primeBinding creates a binding that does not exist yet as a copy of another
// one, whose role included its role before the two were split. An administrator
// who has restricted or extended the other finds this one the same. If the
// other does not exist, it does nothing.
func primeBinding(ctx context.Context, client kubernetes.Interface, name, from string) error {
	bindings := client.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	source, err := bindings.Get(ctx, from, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	primed := bind(name, source.Subjects...)
	primed.Labels, primed.Annotations = source.Labels, source.Annotations
	_, err = bindings.Create(ctx, primed, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // another server was faster
	}
	return err
}

func reconcileBindings(ctx context.Context, client kubernetes.Interface, bindings []*rbacv1.ClusterRoleBinding) error {
	for _, binding := range bindings {
		options := reconciliation.ReconcileRoleBindingOptions{
			RoleBinding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding},
			Client:      reconciliation.ClusterRoleBindingClientAdapter{Client: client.RbacV1().ClusterRoleBindings()},
			Confirm:     true,
		}
		if err := retryOnConflict(ctx, func() error { _, err := options.Run(); return err }); err != nil {
			return fmt.Errorf("reconciling ClusterRoleBinding %s: %w", binding.Name, err)
		}
	}
	return nil
}

// retryOnConflict calls run again, a few times, if another client has written
// the object in between.
func retryOnConflict(ctx context.Context, run func() error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return run()
	})
}
