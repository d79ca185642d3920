package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"github.com/certplane/certplane/internal/rights"
)

// reconcileNamespaced creates the roles that are in the namespace of the
// controllers' accounts, and their bindings.
func reconcileNamespaced(ctx context.Context, client kubernetes.Interface) error {
	for _, c := range rights.Controllers() {
		if len(c.InNamespace) == 0 {
			continue
		}
		name := roleOf(c.Account)
		if err := reconcileRole(ctx, client, name, c.InNamespace, name, serviceAccount(c.Account)); err != nil {
			return err
		}
	}
	acme := roleOf(rights.ACMEServerAccount)
	if err := reconcileRole(ctx, client, acme, rights.ACMEServerNamespaceRules(), acme, serviceAccount(rights.ACMEServerAccount)); err != nil {
		return err
	}
	for _, r := range rights.SystemRoles() {
		var subjects []rbacv1.Subject
		for _, name := range r.Users {
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
		}
		for _, name := range r.Groups {
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name})
		}
		if err := reconcileRole(ctx, client, r.Name, r.Rules, r.Binding, subjects...); err != nil {
			return err
		}
	}
	return nil
}

// reconcileRole gives subjects a role in the accounts' namespace.
func reconcileRole(ctx context.Context, client kubernetes.Interface, name string, rules []rbacv1.PolicyRule, binding string, subjects ...rbacv1.Subject) error {
	role := reconciliation.ReconcileRoleOptions{
		Role:    reconciliation.RoleRuleOwner{Role: (&rbacv1.Role{ObjectMeta: metaInNamespace(name), Rules: rules}).DeepCopy()},
		Client:  reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := role.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling Role %s: %w", name, err)
	}
	bound := reconciliation.ReconcileRoleBindingOptions{
		RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: &rbacv1.RoleBinding{
			ObjectMeta: metaInNamespace(binding),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   subjects,
		}},
		Client:  reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	if err := retryOnConflict(ctx, func() error { _, err := bound.Run(); return err }); err != nil {
		return fmt.Errorf("reconciling RoleBinding %s: %w", binding, err)
	}
	return nil
}

func metaInNamespace(name string) metav1.ObjectMeta {
	m := meta(name)
	m.Namespace = rights.ServeNamespace
	return m
}
