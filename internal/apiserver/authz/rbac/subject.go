package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// isSubject reports whether u is the subject of a binding in namespace, which
// is empty for a ClusterRoleBinding.
func isSubject(u user.Info, subject rbacv1.Subject, namespace string) bool {
	switch subject.Kind {
	case rbacv1.UserKind:
		return u.GetName() == subject.Name
	case rbacv1.GroupKind:
		return slices.Contains(u.GetGroups(), subject.Name)
	case rbacv1.ServiceAccountKind:
		namespace = accountNamespace(subject, namespace)
		return namespace != "" && serviceaccount.MatchesUsername(namespace, subject.Name, u.GetName())
	}
	return false
}

// accountNamespace returns the namespace of a service account. A RoleBinding
// may omit it; it is then the binding's.
func accountNamespace(subject rbacv1.Subject, bindingNamespace string) string {
	if subject.Namespace != "" {
		return subject.Namespace
	}
	return bindingNamespace
}

// userKeys and subjectKeys have a key in common whenever isSubject holds, so
// that bindings can be looked up by user.
func userKeys(u user.Info) []string {
	keys := []string{"user:" + u.GetName()}
	for _, group := range u.GetGroups() {
		keys = append(keys, "group:"+group)
	}
	return keys
}

func subjectKeys(subjects []rbacv1.Subject, namespace string) []string {
	var keys []string
	for _, subject := range subjects {
		switch subject.Kind {
		case rbacv1.UserKind:
			keys = append(keys, "user:"+subject.Name)
		case rbacv1.GroupKind:
			keys = append(keys, "group:"+subject.Name)
		case rbacv1.ServiceAccountKind:
			keys = append(keys, "user:"+serviceaccount.MakeUsername(accountNamespace(subject, namespace), subject.Name))
		}
	}
	return keys
}
