package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// The account that signs with what webhooks answer, and the role that says
// for which signers: those in the configuration.
const (
	delegatedAccount = "csr-webhook-signer"
	delegatedRole    = "system:controller:" + delegatedAccount + ":signers"
)

// DelegatedRule lets certificates be signed for these signers. A name can be
// that of a domain, example.com/*.
func DelegatedRule(signers ...string) rbacv1.PolicyRule {
	return allowOn("sign", certificates, "signers", signers...)
}

// ReconcileDelegated lets the account that signs for webhooks sign for these
// signers and no others. A role or binding whose autoupdate annotation is
// "false" is left alone.
func ReconcileDelegated(ctx context.Context, client kubernetes.Interface, signers []string) error {
	if len(signers) == 0 {
		return removeDelegated(ctx, client)
	}
	object := role{name: delegatedRole, rules: []rbacv1.PolicyRule{DelegatedRule(signers...)}}.object()
	options := reconciliation.ReconcileRoleOptions{
		Role:                   reconciliation.ClusterRoleRuleOwner{ClusterRole: object},
		Client:                 reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()},
		RemoveExtraPermissions: true,
		Confirm:                true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := options.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling ClusterRole %s: %w", delegatedRole, err)
	}
	return reconcileBindings(ctx, client, []*rbacv1.ClusterRoleBinding{bind(delegatedRole, serviceAccount(delegatedAccount))})
}

func removeDelegated(ctx context.Context, client kubernetes.Interface) error {
	if err := removeBinding(ctx, client, delegatedRole); err != nil {
		return fmt.Errorf("removing ClusterRoleBinding %s: %w", delegatedRole, err)
	}
	roles := client.RbacV1().ClusterRoles()
	found, err := roles.Get(ctx, delegatedRole, metav1.GetOptions{})
	if err == nil && found.Annotations[rbacv1.AutoUpdateAnnotationKey] == "true" {
		err = roles.Delete(ctx, delegatedRole, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing ClusterRole %s: %w", delegatedRole, err)
	}
	return nil
}
