// Package authz decides what an authenticated user may do.
package authz

import (
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/informers"

	"github.com/certplane/certplane/internal/authz/node"
	"github.com/certplane/certplane/internal/authz/rbac"
	"github.com/certplane/certplane/internal/authz/rbac/bootstrap"
)

// Config is what decisions are made from.
type Config struct {
	// Informers hold the roles, the bindings and the pods. They must not have
	// been started.
	Informers informers.SharedInformerFactory
	// Settings choose who is asked.
	Settings Settings
}

// New returns the authorizer and the list of rules behind it: members of
// system:masters may do everything, so that no mistake in roles or in a
// configuration can lock the administrators out. Of all others nodes may do
// what their pods need and everybody what RBAC allows, unless the settings ask
// somebody else.
func New(cfg Config) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	links, err := cfg.Settings.links()
	if err != nil {
		return nil, nil, err
	}
	asked := chain{authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}
	var rules []authorizer.RuleResolver
	for _, link := range links {
		next, err := newLink(link, cfg.Informers)
		if err != nil {
			return nil, nil, fmt.Errorf("making the authorizer %s: %w", link.Name, err)
		}
		if resolver, ok := next.(authorizer.RuleResolver); ok {
			rules = append(rules, resolver)
		}
		asked = append(asked, metrics.InstrumentedAuthorizer(string(link.Type), link.Name, authorizer.AuthorizerFunc(next.Authorize)))
	}
	return authorizer.AuthorizerFunc(asked.Authorize), union.NewRuleResolvers(rules...), nil
}

func newLink(link apiserver.AuthorizerConfiguration, shared informers.SharedInformerFactory) (authorizer.UnconditionalAuthorizer, error) {
	switch link.Type {
	case typeNode:
		return node.New(node.FromInformers(shared), bootstrap.NodeRules()), nil
	case typeRBAC:
		return rbac.New(rbac.FromInformers(shared)), nil
	default:
		return newWebhook(link)
	}
}
