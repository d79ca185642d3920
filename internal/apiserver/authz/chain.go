package authz

import (
	"context"
	"errors"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// chain calls one authorizer after the other until one allows or denies. It is
// not the library's union, which adds names to the reasons that users read.
type chain []link

// link is an authorizer and its name, such as webhook "company".
type link struct {
	name string
	authorizer.UnconditionalAuthorizer
}

// Verdict is the decision of a chain about a request.
type Verdict struct {
	Decision authorizer.Decision
	// By is the name of the authorizer that has decided, as in its
	// configuration. It is empty if none has.
	By     string
	Reason string
	Err    error
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (c chain) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	v := c.decide(ctx, request)
	return v.Decision, v.Reason, v.Err
}

func (c chain) decide(ctx context.Context, request authorizer.Attributes) Verdict {
	if request.GetUser() == nil {
		return Verdict{Decision: authorizer.DecisionNoOpinion, Err: errors.New("no user on request")}
	}
	var reasons []string
	var errs []error
	for _, next := range c {
		decision, reason, err := next.Authorize(ctx, request)
		if decision != authorizer.DecisionNoOpinion {
			return Verdict{Decision: decision, By: next.name, Reason: reason, Err: err}
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return Verdict{Decision: authorizer.DecisionNoOpinion, Reason: strings.Join(reasons, "\n"), Err: utilerrors.NewAggregate(errs)}
}
