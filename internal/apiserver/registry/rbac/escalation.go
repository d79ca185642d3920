package rbac

import (
	"context"
	"errors"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/certplane/certplane/internal/api/rbac"
	authzrbac "github.com/certplane/certplane/internal/apiserver/authz/rbac"
)

// allRights are the rights that an aggregation rule may include in the end: any right in a
// role with the labels.
var allRights = []rbacv1.PolicyRule{
	{Verbs: []string{rbacv1.VerbAll}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}},
	{Verbs: []string{rbacv1.VerbAll}, NonResourceURLs: []string{rbacv1.NonResourceAll}},
}

// grants checks which rights users may grant. To write a role, a user must hold
// its rules or the verb "escalate"; to write a binding, the rules of its role
// or the verb "bind" on that role.
type grants struct {
	authorizer authorizer.Authorizer
	resolver   *authzrbac.Resolver
}

func (g grants) checkRole(ctx context.Context, obj, _ runtime.Object) error {
	if isMaster(ctx) || g.mayEscalate(ctx) {
		return nil
	}
	role := obj.(*rbacv1.Role)
	if err := g.confirmHeld(ctx, role.Rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource("roles"), role.Name, err)
	}
	return nil
}

func (g grants) checkClusterRole(ctx context.Context, obj, old runtime.Object) error {
	if isMaster(ctx) || g.mayEscalate(ctx) {
		return nil
	}
	role := obj.(*rbacv1.ClusterRole)
	if err := g.confirmHeld(ctx, role.Rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource("clusterroles"), role.Name, err)
	}
	if !aggregates(obj) && !aggregates(old) {
		return nil
	}
	if err := g.confirmHeld(ctx, allRights); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource("clusterroles"), role.Name,
			errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

// aggregates reports whether obj, which may be nil, is a role that aggregates other roles.
func aggregates(obj runtime.Object) bool {
	role, ok := obj.(*rbacv1.ClusterRole)
	return ok && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func (g grants) checkRoleBinding(ctx context.Context, obj, _ runtime.Object) error {
	binding := obj.(*rbacv1.RoleBinding)
	return g.checkBinding(ctx, "RoleBinding", binding.Name, binding.RoleRef, "Role", "ClusterRole")
}

func (g grants) checkClusterRoleBinding(ctx context.Context, obj, _ runtime.Object) error {
	binding := obj.(*rbacv1.ClusterRoleBinding)
	return g.checkBinding(ctx, "ClusterRoleBinding", binding.Name, binding.RoleRef, "ClusterRole")
}

func (g grants) checkBinding(ctx context.Context, kind, name string, ref rbacv1.RoleRef, roleKinds ...string) error {
	if isMaster(ctx) {
		return nil
	}
	// An invalid reference has no rules to compare with: return an error for
	// the field.
	if errs := rbac.ValidateRoleRef(ref, roleKinds...); len(errs) > 0 {
		return apierrors.NewInvalid(rbacv1.SchemeGroupVersion.WithKind(kind).GroupKind(), name, errs)
	}
	// The namespace is the request's: in a new object it may still be empty.
	namespace := genericapirequest.NamespaceValue(ctx)
	if g.mayBind(ctx, ref, namespace) {
		return nil
	}
	rules, err := g.resolver.RoleRules(ctx, ref, namespace)
	if err != nil {
		return err
	}
	if err := g.confirmHeld(ctx, rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource(strings.ToLower(kind)+"s"), name, err)
	}
	return nil
}

func (g grants) confirmHeld(ctx context.Context, rules []rbacv1.PolicyRule) error {
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	return authzrbac.ConfirmNoEscalation(ctx, g.resolver, u, genericapirequest.NamespaceValue(ctx), rules)
}

// mayEscalate reports whether the user has the verb "escalate" on the role in
// the request. A POST contains no name, so it requires the verb on all roles.
func (g grants) mayEscalate(ctx context.Context) bool {
	request, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok || !request.IsResourceRequest {
		return false
	}
	return g.isAllowed(ctx, authorizer.AttributesRecord{
		Verb:      "escalate",
		APIGroup:  request.APIGroup,
		Resource:  request.Resource,
		Namespace: request.Namespace,
		Name:      request.Name,
	})
}

// mayBind reports whether the user has the verb "bind" on the role to which ref
// refers.
func (g grants) mayBind(ctx context.Context, ref rbacv1.RoleRef, namespace string) bool {
	return g.isAllowed(ctx, authorizer.AttributesRecord{
		Verb:      "bind",
		APIGroup:  ref.APIGroup,
		Resource:  strings.ToLower(ref.Kind) + "s",
		Namespace: namespace,
		Name:      ref.Name,
	})
}

func (g grants) isAllowed(ctx context.Context, request authorizer.AttributesRecord) bool {
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false
	}
	request.User = u
	request.APIVersion = "*"
	request.ResourceRequest = true
	decision, _, err := g.authorizer.Authorize(ctx, request)
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Could not authorize", "verb", request.Verb, "user", u.GetName())
	}
	return decision == authorizer.DecisionAllow
}

// isMaster reports whether the user is in the group that may do everything.
func isMaster(ctx context.Context) bool {
	u, ok := genericapirequest.UserFrom(ctx)
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
