package authz

import (
	"context"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/process/filewatch"
)

// Authorizer calls the authorizers that the settings configure, and follows the
// changes of their file while Watch runs. It is safe for concurrent use.
type Authorizer struct {
	config   Config
	builtin  builtin
	opened   []byte // the first content of the settings' file
	deciding atomic.Pointer[deciders]
}

// deciders are the result of one content of the file.
type deciders struct {
	chain chain
	rules authorizer.RuleResolver
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (a *Authorizer) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.deciding.Load().chain.Authorize(ctx, request)
}

// Decide is Authorize, and also returns which authorizer has decided.
func (a *Authorizer) Decide(ctx context.Context, request authorizer.Attributes) Verdict {
	return a.deciding.Load().chain.decide(ctx, request)
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return a.deciding.Load().rules.RulesFor(ctx, u, namespace)
}

// Watch applies changes of the settings' file, if there is one, until ctx ends.
// After an invalid content, the previous one stays in force.
func (a *Authorizer) Watch(ctx context.Context) {
	if a.config.Settings.ConfigFile == "" {
		return
	}
	metrics.RegisterMetrics()
	metrics.RecordAuthorizationConfigLastConfigInfo(a.config.ServerID, string(a.opened))
	config := filewatch.Config{
		Path: a.config.Settings.ConfigFile,
		What: "authorization configuration",
		Apply: func(_ context.Context, content []byte) error {
			return a.apply(content)
		},
		Succeeded: func(content []byte) {
			metrics.RecordAuthorizationConfigAutomaticReloadSuccess(a.config.ServerID, string(content))
		},
		Failed: func() { metrics.RecordAuthorizationConfigAutomaticReloadFailure(a.config.ServerID) },
	}
	file := config.Files()
	file.InUse(a.opened)
	file.Run(ctx, clock.RealClock{}, filewatch.ConfigEvery)
}

// apply applies a content of the settings' file.
func (a *Authorizer) apply(content []byte) error {
	links, err := parse(content)
	if err != nil {
		return err
	}
	next, err := a.decide(links)
	if err != nil {
		return err
	}
	a.deciding.Store(next)
	return nil
}
