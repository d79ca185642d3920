package authorization

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// judge answers reviews that have been validated.
type judge struct {
	authorizer authorizer.Authorizer
	rules      authorizer.RuleResolver
}

func (j judge) subjectAccess(ctx context.Context, question *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	question.Status = j.decide(ctx, specAttributes(question.Spec))
	return question, nil
}

func (j judge) localSubjectAccess(ctx context.Context, question *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error) {
	question.Status = j.decide(ctx, specAttributes(question.Spec))
	return question, nil
}

func (j judge) selfSubjectAccess(ctx context.Context, question *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
	u, _ := genericapirequest.UserFrom(ctx)
	question.Status = j.decide(ctx, attributesOf(u, question.Spec.ResourceAttributes, question.Spec.NonResourceAttributes))
	return question, nil
}

func specAttributes(spec authorizationv1.SubjectAccessReviewSpec) authorizer.AttributesRecord {
	return attributesOf(userOf(spec), spec.ResourceAttributes, spec.NonResourceAttributes)
}

func (j judge) decide(ctx context.Context, request authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := j.authorizer.Authorize(ctx, request)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed:         decision == authorizer.DecisionAllow,
		Denied:          decision == authorizer.DecisionDeny,
		Reason:          reason,
		EvaluationError: evaluationError(err, request),
	}
}

// selfSubjectRules returns only the status, as Kubernetes does.
func (j judge) selfSubjectRules(ctx context.Context, question *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error) {
	u, _ := genericapirequest.UserFrom(ctx)
	resources, urls, incomplete, err := j.rules.RulesFor(ctx, u, question.Spec.Namespace)
	// Clients expect lists, not null.
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    make([]authorizationv1.ResourceRule, 0, len(resources)),
		NonResourceRules: make([]authorizationv1.NonResourceRule, 0, len(urls)),
		Incomplete:       incomplete,
	}
	for _, rule := range resources {
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
			Verbs:         rule.GetVerbs(),
			APIGroups:     rule.GetAPIGroups(),
			Resources:     rule.GetResources(),
			ResourceNames: rule.GetResourceNames(),
		})
	}
	for _, rule := range urls {
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs:           rule.GetVerbs(),
			NonResourceURLs: rule.GetNonResourceURLs(),
		})
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return &authorizationv1.SelfSubjectRulesReview{Status: status}, nil
}
