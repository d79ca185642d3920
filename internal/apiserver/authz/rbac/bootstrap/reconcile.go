package bootstrap

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// Reconcile adds missing parts to the bootstrap roles and bindings: the objects, their rules
// and their subjects. It keeps everything that users have added, and does not change an
// object whose autoupdate annotation is "false". Several servers may call it at the same
// time.
func Reconcile(ctx context.Context, client kubernetes.Interface) error {
	if err := reconcileRoles(ctx, client, ClusterRoles()); err != nil {
		return err
	}
	if err := reconcileNamespaced(ctx, client); err != nil {
		return err
	}
	if err := primeBinding(ctx, client, "system:public-info-viewer", "system:discovery"); err != nil {
		return err
	}
	return reconcileBindings(ctx, client, ClusterRoleBindings())
}

// primeBinding creates a missing binding as a copy of another one, whose role included its
// role before the two were split. So restrictions and additions that an administrator has
// made to the other binding apply to this one also. If the other does not exist,
// primeBinding does nothing.
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

// atOnce is how many objects are reconciled at the same time: writes at the same time share
// one sync of the store's log.
const atOnce = 8

func reconcileRoles(ctx context.Context, client kubernetes.Interface, roles []*rbacv1.ClusterRole) error {
	listed, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing ClusterRoles: %w", err)
	}
	stored := map[string]*rbacv1.ClusterRole{}
	for i := range listed.Items {
		stored[listed.Items[i].Name] = &listed.Items[i]
	}
	return forEach(ctx, "ClusterRole", roles, func(role *rbacv1.ClusterRole) func() error {
		options := reconciliation.ReconcileRoleOptions{
			Role:    reconciliation.ClusterRoleRuleOwner{ClusterRole: role},
			Client:  &listedRole{reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()}, stored[role.Name]},
			Confirm: true,
		}
		return func() error { _, err := options.Run(); return err }
	})
}

// listedRole is first read from a list: a request for each role would delay each start.
// After a conflict it is read from the API.
type listedRole struct {
	reconciliation.ClusterRoleModifier
	listed *rbacv1.ClusterRole
}

func (r *listedRole) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	if listed := r.listed; listed != nil {
		r.listed = nil
		return reconciliation.ClusterRoleRuleOwner{ClusterRole: listed}, nil
	}
	return r.ClusterRoleModifier.Get(namespace, name)
}

func reconcileBindings(ctx context.Context, client kubernetes.Interface, bindings []*rbacv1.ClusterRoleBinding) error {
	listed, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	stored := map[string]*rbacv1.ClusterRoleBinding{}
	for i := range listed.Items {
		stored[listed.Items[i].Name] = &listed.Items[i]
	}
	return forEach(ctx, "ClusterRoleBinding", bindings, func(binding *rbacv1.ClusterRoleBinding) func() error {
		options := reconciliation.ReconcileRoleBindingOptions{
			RoleBinding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding},
			Client:      &listedBinding{reconciliation.ClusterRoleBindingClientAdapter{Client: client.RbacV1().ClusterRoleBindings()}, stored[binding.Name]},
			Confirm:     true,
		}
		return func() error { _, err := options.Run(); return err }
	})
}

// listedBinding is a listedRole for a binding.
type listedBinding struct {
	reconciliation.ClusterRoleBindingClientAdapter
	listed *rbacv1.ClusterRoleBinding
}

func (b *listedBinding) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	if listed := b.listed; listed != nil {
		b.listed = nil
		return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: listed}, nil
	}
	return b.ClusterRoleBindingClientAdapter.Get(namespace, name)
}

// forEach calls prepare for each object, and what it returns for some at the same time: again,
// a few times, if another client has written the object in between.
func forEach[T metav1.Object](ctx context.Context, kind string, objects []T, prepare func(T) (reconcile func() error)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, object := range objects {
		reconcile := prepare(object)
		group.Go(func() error {
			if err := retryOnConflict(ctx, reconcile); err != nil {
				return fmt.Errorf("reconciling %s %s: %w", kind, object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
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
