package rbac

import (
	"context"
	"fmt"
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Policy is the state on which decisions are based. Its results are shared and
// must not be modified.
type Policy interface {
	Role(ctx context.Context, namespace, name string) (*rbacv1.Role, error)
	ClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error)
	// RoleBindings returns at least those bindings of namespace that have u
	// among their subjects.
	RoleBindings(ctx context.Context, namespace string, u user.Info) ([]*rbacv1.RoleBinding, error)
	// ClusterRoleBindings returns at least those bindings that have u among
	// their subjects.
	ClusterRoleBindings(ctx context.Context, u user.Info) ([]*rbacv1.ClusterRoleBinding, error)
}

// Resolver finds the rules that apply to a user.
type Resolver struct {
	policy Policy
}

// NewResolver returns a resolver of the bindings and roles in policy.
func NewResolver(policy Policy) *Resolver {
	return &Resolver{policy: policy}
}

// Grants yields each rule that applies to u: cluster-wide rules and, if namespace is not
// empty, the rules of namespace. For a binding that cannot be resolved, it yields an error
// and continues with the next one.
func (r *Resolver) Grants(ctx context.Context, u user.Info, namespace string) iter.Seq2[Grant, error] {
	return func(yield func(Grant, error) bool) {
		for b, err := range r.bindings(ctx, u, namespace) {
			if err != nil {
				if !yield(Grant{}, err) {
					return
				}
				continue
			}
			if b.findSubject(u) && !r.yieldRules(ctx, b, yield) {
				return
			}
		}
	}
}

// yieldRules yields the rules that b grants and reports whether to continue.
func (r *Resolver) yieldRules(ctx context.Context, b binding, yield func(Grant, error) bool) bool {
	rules, err := r.RoleRules(ctx, b.role, b.namespace)
	if err != nil {
		return yield(Grant{}, err)
	}
	for i := range rules {
		if !yield(Grant{Rule: &rules[i], from: b}, nil) {
			return false
		}
	}
	return true
}

// bindings yields those that may have u as a subject, ClusterRoleBindings
// first.
func (r *Resolver) bindings(ctx context.Context, u user.Info, namespace string) iter.Seq2[binding, error] {
	return func(yield func(binding, error) bool) {
		ofCluster, err := r.policy.ClusterRoleBindings(ctx, u)
		if err != nil && !yield(binding{}, err) {
			return
		}
		for _, b := range ofCluster {
			if !yield(binding{kind: "ClusterRoleBinding", name: b.Name, role: b.RoleRef, subjects: b.Subjects}, nil) {
				return
			}
		}
		if namespace == "" {
			return
		}
		ofNamespace, err := r.policy.RoleBindings(ctx, namespace, u)
		if err != nil && !yield(binding{}, err) {
			return
		}
		for _, b := range ofNamespace {
			if !yield(binding{kind: "RoleBinding", name: b.Name, namespace: namespace, role: b.RoleRef, subjects: b.Subjects}, nil) {
				return
			}
		}
	}
}

// Rules returns all rules that apply to u in namespace. Together with an error
// it returns the rules that could be found.
func (r *Resolver) Rules(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	for grant, err := range r.Grants(ctx, u, namespace) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rules = append(rules, *grant.Rule)
	}
	return rules, utilerrors.NewAggregate(errs)
}

// RoleRules returns the rules of the role that a binding in namespace refers
// to.
func (r *Resolver) RoleRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		role, err := r.policy.Role(ctx, namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	case "ClusterRole":
		role, err := r.policy.ClusterRole(ctx, ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}
