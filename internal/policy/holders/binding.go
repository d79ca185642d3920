package holders

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// binding is a binding with its role.
type binding struct {
	name, role string // with their kinds
	namespace  string // empty for a ClusterRoleBinding
	subjects   []rbacv1.Subject
	rules      []rbacv1.PolicyRule
	// aggregated are the ClusterRoles whose rules the role has.
	aggregated []rbacv1.ClusterRole
}

// bindings yields the bindings whose role exists. Others give nothing.
func (o Objects) bindings() iter.Seq[binding] {
	return func(yield func(binding) bool) {
		index := o.index()
		for _, b := range o.ClusterRoleBindings {
			found, ok := index.resolve(binding{name: "ClusterRoleBinding " + b.Name, subjects: b.Subjects}, b.RoleRef)
			if ok && !yield(found) {
				return
			}
		}
		for _, b := range o.RoleBindings {
			found, ok := index.resolve(binding{name: "RoleBinding " + b.Namespace + "/" + b.Name, namespace: b.Namespace, subjects: b.Subjects}, b.RoleRef)
			if ok && !yield(found) {
				return
			}
		}
	}
}

// index finds roles by their names.
type index struct {
	all          []rbacv1.ClusterRole
	clusterRoles map[string]*rbacv1.ClusterRole
	roles        map[string]*rbacv1.Role // by NAMESPACE/NAME
}

func (o Objects) index() index {
	i := index{o.ClusterRoles, map[string]*rbacv1.ClusterRole{}, map[string]*rbacv1.Role{}}
	for n := range o.ClusterRoles {
		i.clusterRoles[o.ClusterRoles[n].Name] = &o.ClusterRoles[n]
	}
	for n := range o.Roles {
		i.roles[o.Roles[n].Namespace+"/"+o.Roles[n].Name] = &o.Roles[n]
	}
	return i
}

// resolve adds the role to which a binding refers.
func (i index) resolve(b binding, ref rbacv1.RoleRef) (binding, bool) {
	switch ref.Kind {
	case "ClusterRole":
		role := i.clusterRoles[ref.Name]
		if role == nil {
			return b, false
		}
		b.role, b.rules, b.aggregated = "ClusterRole "+role.Name, role.Rules, i.aggregatedBy(role)
		return b, true
	case "Role":
		role := i.roles[b.namespace+"/"+ref.Name]
		if role == nil {
			return b, false
		}
		b.role, b.rules = "Role "+role.Namespace+"/"+role.Name, role.Rules
		return b, true
	}
	return b, false
}

// aggregatedBy returns the ClusterRoles that another one selects. Its stored
// rules, which alone count, are theirs.
func (i index) aggregatedBy(role *rbacv1.ClusterRole) []rbacv1.ClusterRole {
	if role.AggregationRule == nil {
		return nil
	}
	var found []rbacv1.ClusterRole
	for _, other := range i.all {
		if other.Name != role.Name && selects(role.AggregationRule.ClusterRoleSelectors, other.Labels) {
			found = append(found, other)
		}
	}
	return found
}

// selects reports whether one of the selectors selects an object with labels.
func selects(selectors []metav1.LabelSelector, of map[string]string) bool {
	return slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		return err == nil && selector.Matches(labels.Set(of))
	})
}

// source returns where a right of the binding comes from.
func (b binding) source(right Right) Source {
	s := Source{Binding: b.name, Role: b.role}
	for _, role := range b.aggregated {
		if right.heldBy(role.Rules) {
			s.From = append(s.From, role.Name)
		}
	}
	slices.Sort(s.From)
	return s
}

func compareSources(a, b Source) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Binding, b.Binding))
}

// judge reports whether a binding gives the right, and otherwise what it has
// instead. misled reports whether it looks as if it were meant to give it.
func (r Right) judge(b binding) (full bool, almost []string, misled bool) {
	switch {
	case r.heldBy(b.rules) && b.namespace != "" && !r.Namespaced:
		return false, []string{fmt.Sprintf("%s gives it in the namespace %s alone, which has no effect", b.name, b.namespace)}, true
	case r.heldBy(b.rules):
		return true, nil, false
	case b.namespace != "" && !r.Namespaced:
		return false, nil, false
	}
	for _, group := range r.Mistaken {
		if r.in(group).heldBy(b.rules) {
			return false, []string{fmt.Sprintf("%s gives it in the API group %s, which is another right", b.name, group)}, true
		}
	}
	names := r.otherNames(b.rules)
	if len(names) == 0 {
		return false, nil, false
	}
	text := fmt.Sprintf("%s gives it for %s alone", b.name, strings.Join(names, ", "))
	if misled = slices.ContainsFunc(names, isVainPattern); misled {
		text += "; a star stands for names only in DOMAIN/*"
	}
	return false, []string{text}, misled
}

// isVainPattern reports whether a name has a star that stands for nothing.
func isVainPattern(name string) bool {
	before, hasStar := strings.CutSuffix(name, "*")
	return strings.Contains(before, "*") || hasStar && (!strings.HasSuffix(before, "/") || before == "/")
}

// heldBy reports whether rules include the right.
func (r Right) heldBy(rules []rbacv1.PolicyRule) bool {
	for _, rule := range r.AnyOf {
		for _, one := range validation.BreakdownRule(rule) {
			if held, _ := validation.Covers(rules, []rbacv1.PolicyRule{one}); held {
				return true
			}
		}
	}
	return false
}

// in returns the same right in another API group.
func (r Right) in(group string) Right {
	moved := r
	moved.AnyOf = nil
	for _, rule := range r.AnyOf {
		rule.APIGroups = []string{group}
		moved.AnyOf = append(moved.AnyOf, rule)
	}
	return moved
}

// otherNames returns the names of objects for which rules include the right.
func (r Right) otherNames(rules []rbacv1.PolicyRule) []string {
	var names []string
	for _, rule := range rules {
		anyName := rule
		anyName.ResourceNames = nil
		if len(rule.ResourceNames) > 0 && r.heldBy([]rbacv1.PolicyRule{anyName}) {
			names = append(names, rule.ResourceNames...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
