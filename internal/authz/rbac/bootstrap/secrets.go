package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// signerManager is the account that keeps the CAs of declared signers.
const signerManager = "signer-manager"

// SecretRules is what the account that keeps the CAs of declared signers may do
// with Secrets in the namespace of the controllers' accounts. It may touch none
// elsewhere.
func SecretRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("create update "+read, core, "secrets")}
}

// reconcileSecrets gives SecretRules.
func reconcileSecrets(ctx context.Context, client kubernetes.Interface) error {
	name := controller{account: signerManager}.name()
	metadata := meta(name)
	metadata.Namespace = metav1.NamespaceSystem
	role := reconciliation.ReconcileRoleOptions{
		Role:    reconciliation.RoleRuleOwner{Role: &rbacv1.Role{ObjectMeta: metadata, Rules: SecretRules()}},
		Client:  reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := role.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling Role %s: %w", name, err)
	}
	binding := reconciliation.ReconcileRoleBindingOptions{
		RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: &rbacv1.RoleBinding{
			ObjectMeta: metadata,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{serviceAccount(signerManager)},
		}},
		Client:  reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := binding.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling RoleBinding %s: %w", name, err)
	}
	return nil
}
