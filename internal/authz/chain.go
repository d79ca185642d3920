package authz

import (
	"context"
	"errors"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// chain asks one authorizer after the other until one allows or denies. It is
// not the library's union, which puts names in front of the reasons that users
// read.
type chain []authorizer.UnconditionalAuthorizer

// Authorize implements authorizer.UnconditionalAuthorizer.
func (c chain) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	if request.GetUser() == nil {
		return authorizer.DecisionNoOpinion, "", errors.New("no user on request")
	}
	var reasons []string
	var errs []error
	for _, next := range c {
		decision, reason, err := next.Authorize(ctx, request)
		if decision != authorizer.DecisionNoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return authorizer.DecisionNoOpinion, strings.Join(reasons, "\n"), utilerrors.NewAggregate(errs)
}
