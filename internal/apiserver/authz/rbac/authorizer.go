// Package rbac authorizes requests by roles and bindings.
package rbac

import (
	"context"
	"errors"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// Authorizer allows requests that match a rule and has no opinion on other requests.
type Authorizer struct {
	resolver *Resolver
}

// New returns the authorizer for policy.
func New(policy Policy) *Authorizer {
	return &Authorizer{resolver: NewResolver(policy)}
}

// Authorize looks for a rule that permits the request.
func (a *Authorizer) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	u := request.GetUser()
	if u == nil {
		return authorizer.DecisionNoOpinion, "", errors.New("no user on request")
	}
	var errs []error
	for grant, err := range a.resolver.Grants(ctx, u, request.GetNamespace()) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if Allows(grant.Rule, request) {
			return authorizer.DecisionAllow, "RBAC: allowed by " + grant.String(), nil
		}
	}
	return authorizer.DecisionNoOpinion, explain(errs), nil
}

// explain returns a message about broken bindings for the user: a missing role
// is the usual cause of an unexpected refusal.
func explain(errs []error) string {
	if len(errs) == 0 {
		return ""
	}
	return fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
}

// ConditionsAwareAuthorize is Authorize: rules have no conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, request authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, request))
}

// EvaluateConditions denies: no decision of this authorizer has conditions.
func (a *Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor returns what u may do in namespace. Together with an error it
// returns the rules that could be found.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	rules, err := a.resolver.Rules(ctx, u, namespace)
	var resources []authorizer.ResourceRuleInfo
	var urls []authorizer.NonResourceRuleInfo
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs:         rule.Verbs,
				APIGroups:     rule.APIGroups,
				Resources:     rule.Resources,
				ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			urls = append(urls, &authorizer.DefaultNonResourceRuleInfo{
				Verbs:           rule.Verbs,
				NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	return resources, urls, false, err
}
