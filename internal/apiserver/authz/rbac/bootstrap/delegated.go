package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"github.com/certplane/certplane/internal/rights"
)

// delegatedRole contains the signers for which webhooks sign: those in the
// configuration.
var delegatedRole = roleOf(rights.SignByWebhook.Account) + ":signers"

// ReconcileDelegated lets the account that signs for webhooks sign for exactly these
// signers. It does not change a role or binding whose autoupdate annotation is "false".
func ReconcileDelegated(ctx context.Context, client kubernetes.Interface, signers []string) error {
	if len(signers) == 0 {
		return removeDelegated(ctx, client)
	}
	object := clusterRole(rights.Role{Name: delegatedRole, Rules: []rbacv1.PolicyRule{rights.DelegatedRule(signers...)}})
	options := reconciliation.ReconcileRoleOptions{
		Role:                   reconciliation.ClusterRoleRuleOwner{ClusterRole: object},
		Client:                 reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()},
		RemoveExtraPermissions: true,
		Confirm:                true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := options.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling ClusterRole %s: %w", delegatedRole, err)
	}
	return reconcileBindings(ctx, client, []*rbacv1.ClusterRoleBinding{bind(delegatedRole, serviceAccount(rights.SignByWebhook.Account))})
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
