// Package holders decides which subjects hold the rights that a task needs,
// given the roles and bindings of RBAC.
package holders

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Objects are roles and bindings of an API.
type Objects struct {
	ClusterRoles        []rbacv1.ClusterRole
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	Roles               []rbacv1.Role
	RoleBindings        []rbacv1.RoleBinding
}

// Question asks for the subjects that hold certain rights.
type Question struct {
	// Rights are the required rights; a holder has all of them.
	Rights []Right
	// Namespace is the namespace for rights that can be granted in one. If it is empty,
	// each namespace is evaluated separately.
	Namespace string
}

// Right is a right that a task needs.
type Right struct {
	// AnyOf lists alternative rules: one of them suffices, and in each rule one of the
	// verbs and one of the names.
	AnyOf []rbacv1.PolicyRule `json:"anyOf"`
	// Namespaced is set if the right can be granted in a namespace.
	Namespaced bool `json:"namespaced"`
	// Optional is set if the task can be done without the right, though programs usually
	// need it.
	Optional bool `json:"optional"`
	// Mistaken are API groups with a resource of the same name, for which the
	// right is granted by mistake.
	Mistaken []string `json:"-"`
}

// Answer lists the subjects that hold the rights of a question.
type Answer struct {
	// Holders hold all rights that are not optional.
	Holders []Holder `json:"holders"`
	// Partial hold some of these rights, or were meant to.
	Partial []Holder `json:"partial"`
	// Together is set if a user who belongs to two of Partial would hold all rights. RBAC
	// objects do not show the members of a group.
	Together bool `json:"together"`
}

// Holder is a subject that holds rights.
type Holder struct {
	Subject `json:"subject"`
	// Namespaces are the namespaces in which it holds the rights. Empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// BuiltIn is set if API servers permit the subject everything, whatever the bindings
	// are.
	BuiltIn bool   `json:"builtIn,omitempty"`
	Has     []Held `json:"has,omitempty"`
	Lacks   []Lack `json:"lacks,omitempty"`
}

// Held is a right that a subject holds.
type Held struct {
	Right    string   `json:"right"`
	Optional bool     `json:"optional,omitempty"`
	Sources  []Source `json:"sources"`
}

// Lack is a right that a subject does not hold.
type Lack struct {
	Right    string `json:"right"`
	Optional bool   `json:"optional,omitempty"`
	// Almost lists rules that look like the right but do not grant it.
	Almost []string `json:"almost,omitempty"`
}

// Source is a binding that gives a subject a right.
type Source struct {
	// Binding and Role are a kind and a name, with a namespace if it has one.
	Binding string `json:"binding"`
	Role    string `json:"role"`
	// From are the ClusterRoles that the role aggregates and that have the right.
	From []string `json:"from,omitempty"`
	// Group is the group that has the right. It is empty if the subject has it
	// itself.
	Group string `json:"group,omitempty"`
}

// Find answers a question. The answer is sorted, whatever the order of the objects.
func Find(o Objects, q Question) Answer {
	e := evaluate(o, q)
	answer := Answer{}
	for _, subject := range e.subjects() {
		switch holder := e.judge(subject); {
		case !holder.BuiltIn && !e.isRelevant(subject):
		case holder.may():
			answer.Holders = append(answer.Holders, holder)
		default:
			answer.Partial = append(answer.Partial, holder)
		}
	}
	answer.Together = together(answer.Partial)
	return answer
}

func (h Holder) may() bool {
	return h.BuiltIn || !slices.ContainsFunc(h.Lacks, func(l Lack) bool { return !l.Optional })
}

// together reports whether two of the holders could be the same user, and lack
// nothing together.
func together(partial []Holder) bool {
	for i, a := range partial {
		for _, b := range partial[i+1:] {
			if couldBeOne(a.Subject, b.Subject) && complete(a, b) {
				return true
			}
		}
	}
	return false
}

func couldBeOne(a, b Subject) bool {
	isGroup := a.Kind == rbacv1.GroupKind || b.Kind == rbacv1.GroupKind
	isAccount := a.Kind == rbacv1.ServiceAccountKind || b.Kind == rbacv1.ServiceAccountKind
	return isGroup && !isAccount
}

func complete(a, b Holder) bool {
	for _, lack := range a.Lacks {
		if !lack.Optional && slices.ContainsFunc(b.Lacks, func(l Lack) bool { return l.Right == lack.Right }) {
			return false
		}
	}
	if len(a.Namespaces) == 0 || len(b.Namespaces) == 0 {
		return true
	}
	return slices.ContainsFunc(a.Namespaces, func(ns string) bool { return slices.Contains(b.Namespaces, ns) })
}

// String describes the right.
func (r Right) String() string {
	var texts []string
	for _, rule := range r.AnyOf {
		resource := strings.Join(rule.Resources, " or ")
		if len(rule.ResourceNames) > 0 {
			resource += "." + strings.Join(rule.APIGroups, " or ") + " " + strings.Join(rule.ResourceNames, " or ")
		}
		texts = append(texts, strings.Join(rule.Verbs, " or ")+" on "+resource)
	}
	return strings.Join(texts, ", or ")
}

// Subject is a user, a group or a service account.
type Subject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the kind of the subject and its name.
func (s Subject) String() string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// compareSubjects sorts groups and users before service accounts, which are the most
// numerous.
func compareSubjects(a, b Subject) int {
	rank := func(s Subject) int {
		return slices.Index([]string{rbacv1.GroupKind, rbacv1.UserKind, rbacv1.ServiceAccountKind}, s.Kind)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
