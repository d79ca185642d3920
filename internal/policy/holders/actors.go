package holders

import (
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Actor is a subject that can act as other subjects.
type Actor struct {
	Subject `json:"subject"`
	// As lists the subjects that it can act as.
	As []Subject `json:"as"`
	// By lists the rights that allow this.
	By      []string `json:"by"`
	Sources []Source `json:"sources"`
}

// FindActors returns the users that can act as one of the subjects: by impersonation,
// which KEP-5284 divides into several verbs, or with a token of a service account. It does
// not return the subjects themselves.
func FindActors(o Objects, subjects []Subject) []Actor {
	found := map[Subject]*Actor{}
	for b := range o.bindings() {
		for _, target := range subjects {
			for _, right := range actingAs(target) {
				if right.gives(b, target) {
					note(found, b, target, right)
				}
			}
		}
	}
	var actors []Actor
	for _, subject := range slices.SortedFunc(maps.Keys(found), compareSubjects) {
		if !slices.Contains(subjects, subject) {
			actors = append(actors, *found[subject])
		}
	}
	return actors
}

// actingAs returns the rights that each allow a user to act as the subject.
func actingAs(s Subject) []Right {
	switch s.Kind {
	case rbacv1.UserKind:
		return impersonating("users", "user-info", s.Name)
	case rbacv1.GroupKind:
		return impersonating("groups", "user-info", s.Name)
	default:
		return append(impersonating("serviceaccounts", "serviceaccount", s.Name),
			Right{AnyOf: []rbacv1.PolicyRule{rule("create", "", "serviceaccounts/token", s.Name)}, Namespaced: true})
	}
}

func impersonating(resource, mode, name string) []Right {
	return []Right{
		{AnyOf: []rbacv1.PolicyRule{rule("impersonate", "", resource, name)}, Namespaced: true},
		{AnyOf: []rbacv1.PolicyRule{rule("impersonate:"+mode, authenticationv1.GroupName, resource, name)}, Namespaced: true},
	}
}

func rule(verb, group, resource, name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}}
}

// gives reports whether a binding gives the right to act as target. In a
// namespace, it does for the service accounts there.
func (r Right) gives(b binding, target Subject) bool {
	inReach := b.namespace == "" || target.Kind == rbacv1.ServiceAccountKind && target.Namespace == b.namespace
	return inReach && r.heldBy(b.rules)
}

// note adds what a binding gives to its subjects.
func note(found map[Subject]*Actor, b binding, target Subject, right Right) {
	by := right.AnyOf[0].Verbs[0] + " on " + right.AnyOf[0].Resources[0]
	for _, s := range b.subjects {
		subject, ok := subjectOf(s, b.namespace)
		if !ok {
			continue
		}
		actor := found[subject]
		if actor == nil {
			actor = &Actor{Subject: subject}
			found[subject] = actor
		}
		actor.As = insert(actor.As, target, compareSubjects)
		actor.By = insert(actor.By, by, strings.Compare)
		actor.Sources = insert(actor.Sources, b.source(right), compareSources)
	}
}

// insert adds an item to a sorted list that does not have it.
func insert[T any](list []T, item T, compare func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(list, item, compare)
	if found {
		return list
	}
	return slices.Insert(list, i, item)
}
