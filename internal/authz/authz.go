// Package authz decides what an authenticated user may do.
package authz

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/informers"

	"github.com/certplane/certplane/internal/authz/rbac"
)

// Config is what decisions are made from.
type Config struct {
	// Informers hold the roles and bindings. They must not have been started.
	Informers informers.SharedInformerFactory
}

// New returns the authorizer and the list of rules behind it: members of
// system:masters may do everything, so that no mistake in RBAC objects can
// lock the administrators out; all others may do what RBAC allows.
func New(cfg Config) (authorizer.Authorizer, authorizer.RuleResolver) {
	masters := authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)
	roles := rbac.New(rbac.FromInformers(cfg.Informers))

	// Not the library's union: it would put another "rbac: " in front of the
	// reasons that users read.
	first := func(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
		if decision, reason, err := masters.Authorize(ctx, request); decision == authorizer.DecisionAllow {
			return decision, reason, err
		}
		return roles.Authorize(ctx, request)
	}
	return authorizer.AuthorizerFunc(first), roles
}
