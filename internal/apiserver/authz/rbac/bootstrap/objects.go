// Package bootstrap maintains the roles and bindings that every server starts
// with: the table in internal/rights as objects.
package bootstrap

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/rights"
)

// ClusterRoles returns the roles that every server starts with.
func ClusterRoles() []*rbacv1.ClusterRole {
	var out []*rbacv1.ClusterRole
	for _, r := range rights.Roles() {
		out = append(out, clusterRole(r))
	}
	for _, account := range accounts() {
		rules := rights.Of(account)
		if account == rights.CacheAccount {
			rules = rights.CacheRules(accounts()...)
		}
		out = append(out, clusterRole(rights.Role{Name: roleOf(account), Rules: rules}))
	}
	return out
}

// ClusterRoleBindings returns the bindings that every server starts with.
func ClusterRoleBindings() []*rbacv1.ClusterRoleBinding {
	var out []*rbacv1.ClusterRoleBinding
	for _, b := range rights.Bindings() {
		var subjects []rbacv1.Subject
		for _, name := range b.Groups {
			subjects = append(subjects, group(name))
		}
		out = append(out, bind(b.Role, subjects...))
	}
	for _, account := range accounts() {
		out = append(out, bind(roleOf(account), serviceAccount(account)))
	}
	return out
}

// accounts returns the accounts of all controllers that have rights in the whole
// cluster, including those that run elsewhere.
func accounts() []string {
	accounts := slices.DeleteFunc(rights.Accounts(), func(account string) bool {
		return account != rights.CacheAccount && len(rights.Of(account)) == 0
	})
	for _, c := range rights.Controllers() {
		if c.Where == rights.Peer {
			accounts = append(accounts, c.Account)
		}
	}
	return accounts
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func serviceAccount(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: rights.ServeNamespace, Name: name}
}

// roleOf returns the name of the role of a controller's account.
func roleOf(account string) string { return "system:controller:" + account }

func clusterRole(r rights.Role) *rbacv1.ClusterRole {
	object := &rbacv1.ClusterRole{ObjectMeta: meta(r.Name), Rules: r.Rules}
	if r.Joins != "" {
		object.Labels[r.Joins] = "true"
	}
	if r.Gathers != "" {
		object.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{r.Gathers: "true"}},
		}}
	}
	return object.DeepCopy() // the table must not be modified
}

func bind(role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta(role),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	}
}

// meta marks an object as one that Reconcile keeps complete until a user sets
// the annotation to "false".
func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}
