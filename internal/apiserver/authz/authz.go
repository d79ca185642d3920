// Package authz authorizes the requests of authenticated users.
package authz

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apiserver/authz/node"
	"github.com/certplane/certplane/internal/apiserver/authz/rbac"
	"github.com/certplane/certplane/internal/rights"
)

// Config contains the dependencies of the authorizers.
type Config struct {
	// Informers hold the roles, the bindings and the pods. They must not have
	// been started.
	Informers informers.SharedInformerFactory
	// Client reads the current objects that decisions about nodes need from the
	// store.
	Client kubernetes.Interface
	// Settings configure which authorizers are called.
	Settings Settings
	// ServerID distinguishes servers in metrics.
	ServerID string
}

// builtin has the authorizers that need no other program.
type builtin map[apiserver.AuthorizerType]authorizer.UnconditionalAuthorizer

// New returns the authorizer and the list of rules behind it: members of
// system:masters may do everything, so that no mistake in roles or in a
// configuration can lock the administrators out. Otherwise nodes may do what
// their pods need and all users what RBAC allows, unless the settings configure
// other authorizers.
func New(cfg Config) (*Authorizer, error) {
	a := &Authorizer{config: cfg, builtin: builtin{
		typeNode: node.New(node.FromInformers(cfg.Informers), node.FromStore(cfg.Client), rights.NodeRules()),
		typeRBAC: rbac.New(rbac.FromInformers(cfg.Informers)),
	}}
	if cfg.Settings.ConfigFile == "" {
		links := []apiserver.AuthorizerConfiguration{{Type: typeNode, Name: "node"}, {Type: typeRBAC, Name: "rbac"}}
		next, err := a.decide(links)
		a.deciding.Store(next)
		return a, err
	}
	var err error
	if a.opened, err = os.ReadFile(cfg.Settings.ConfigFile); err == nil {
		err = a.apply(a.opened)
	}
	if err != nil {
		return nil, fmt.Errorf("reading authorization.configFile %s: %w", cfg.Settings.ConfigFile, err)
	}
	return a, nil
}

// decide returns the authorizers of links, in their order.
func (a *Authorizer) decide(links []apiserver.AuthorizerConfiguration) (*deciders, error) {
	next := &deciders{chain: chain{{user.SystemPrivilegedGroup, authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}}
	var rules []authorizer.RuleResolver
	for _, configured := range links {
		asked, err := a.newAuthorizer(configured)
		if err != nil {
			return nil, fmt.Errorf("making the authorizer %s: %w", configured.Name, err)
		}
		if resolver, ok := asked.(authorizer.RuleResolver); ok {
			rules = append(rules, resolver)
		}
		next.chain = append(next.chain, link{
			name:                    fmt.Sprintf("%s %q", strings.ToLower(string(configured.Type)), configured.Name),
			UnconditionalAuthorizer: metrics.InstrumentedAuthorizer(string(configured.Type), configured.Name, authorizer.AuthorizerFunc(asked.Authorize)),
		})
	}
	next.rules = union.NewRuleResolvers(rules...)
	return next, nil
}

func (a *Authorizer) newAuthorizer(configured apiserver.AuthorizerConfiguration) (authorizer.UnconditionalAuthorizer, error) {
	if known, ok := a.builtin[configured.Type]; ok {
		return known, nil
	}
	return newWebhook(configured)
}
