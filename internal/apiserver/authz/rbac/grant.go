package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Grant is a rule that applies to a user, with the binding it comes from.
type Grant struct {
	Rule *rbacv1.PolicyRule
	from binding
}

// String returns where the grant comes from, for audit records and reviews.
func (g Grant) String() string {
	return fmt.Sprintf("%s %q of %s %q to %s",
		g.from.kind, nameIn(g.from.name, g.from.namespace),
		g.from.role.Kind, g.from.role.Name,
		describeSubject(g.from.subject, g.from.namespace))
}

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	kind, name string
	namespace  string // empty for a ClusterRoleBinding
	role       rbacv1.RoleRef
	subjects   []rbacv1.Subject
	subject    rbacv1.Subject // the subject that findSubject found
}

// findSubject looks for u among the subjects.
func (b *binding) findSubject(u user.Info) bool {
	for _, subject := range b.subjects {
		if isSubject(u, subject, b.namespace) {
			b.subject = subject
			return true
		}
	}
	return false
}

func describeSubject(subject rbacv1.Subject, bindingNamespace string) string {
	name := subject.Name
	if subject.Kind == rbacv1.ServiceAccountKind {
		name = nameIn(name, accountNamespace(subject, bindingNamespace))
	}
	return fmt.Sprintf("%s %q", subject.Kind, name)
}

// nameIn returns the form that reasons have for an object in a namespace.
func nameIn(name, namespace string) string {
	if namespace == "" {
		return name
	}
	return name + "/" + namespace
}
