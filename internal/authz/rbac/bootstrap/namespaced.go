package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"github.com/certplane/certplane/internal/rights"
)

// reconcileNamespaced gives controllers the rights that they have only in the
// namespace of their accounts.
func reconcileNamespaced(ctx context.Context, client kubernetes.Interface) error {
	for _, c := range rights.Controllers() {
		if len(c.InNamespace) == 0 {
			continue
		}
		if err := reconcileRole(ctx, client, c.Account, c.InNamespace); err != nil {
			return err
		}
	}
	return nil
}

// reconcileRole gives an account a role in the accounts' namespace.
func reconcileRole(ctx context.Context, client kubernetes.Interface, account string, rules []rbacv1.PolicyRule) error {
	metadata := meta(roleOf(account))
	metadata.Namespace = rights.ServeNamespace
	role := reconciliation.ReconcileRoleOptions{
		Role:    reconciliation.RoleRuleOwner{Role: (&rbacv1.Role{ObjectMeta: metadata, Rules: rules}).DeepCopy()},
		Client:  reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := role.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling Role %s: %w", metadata.Name, err)
	}
	binding := reconciliation.ReconcileRoleBindingOptions{
		RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: &rbacv1.RoleBinding{
			ObjectMeta: metadata,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: metadata.Name},
			Subjects:   []rbacv1.Subject{serviceAccount(account)},
		}},
		Client:  reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := binding.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling RoleBinding %s: %w", metadata.Name, err)
	}
	return nil
}
