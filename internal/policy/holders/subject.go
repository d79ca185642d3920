package holders

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Users and groups that API servers define.
const (
	masters         = "system:masters"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	anonymous       = "system:anonymous"
	serviceAccounts = "system:serviceaccounts"
	accountPrefix   = "system:serviceaccount:"
)

// subjectOf returns the subject of a binding in a namespace, which is empty for a
// ClusterRoleBinding. Service accounts have one form, also if they are named as users. ok
// is false for a subject that no request can come from.
func subjectOf(s rbacv1.Subject, namespace string) (subject Subject, ok bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		if account, isAccount := strings.CutPrefix(s.Name, accountPrefix); isAccount {
			namespace, name, _ := strings.Cut(account, ":")
			return Subject{rbacv1.ServiceAccountKind, namespace, name}, namespace != "" && name != ""
		}
		return Subject{Kind: s.Kind, Name: s.Name}, true
	case rbacv1.GroupKind:
		return Subject{Kind: s.Kind, Name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return Subject{s.Kind, namespace, s.Name}, namespace != ""
	}
	return Subject{}, false
}

// AnyUser stands for every user name, for subjects that can act as any user.
var AnyUser = Subject{Kind: rbacv1.UserKind, Name: "*"}

// SubjectOfUser returns the subject of a username.
func SubjectOfUser(name string) Subject {
	subject, ok := subjectOf(rbacv1.Subject{Kind: rbacv1.UserKind, Name: name}, "")
	if !ok {
		return Subject{Kind: rbacv1.UserKind, Name: name}
	}
	return subject
}

// groups returns the groups to which every user that is the subject, or belongs
// to it, belongs too. Nothing is known of other memberships.
func (s Subject) groups() []string {
	switch {
	case s.Kind == rbacv1.ServiceAccountKind:
		return []string{serviceAccounts + ":" + s.Namespace, serviceAccounts, authenticated}
	case s.Name == anonymous:
		return []string{unauthenticated}
	case s.Name == unauthenticated, s.Name == authenticated:
		return nil
	case strings.HasPrefix(s.Name, serviceAccounts+":"):
		return []string{serviceAccounts, authenticated}
	default:
		return []string{authenticated}
	}
}
