// Package authorization serves authorization.k8s.io: reviews of what users may
// do.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the API group.
type Options struct {
	// Authorizer answers the access reviews.
	Authorizer authorizer.Authorizer
	// Rules answers the rules review.
	Rules authorizer.RuleResolver
}

// NewAPIGroup returns the four reviews.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	judge := judge{authorizer: opts.Authorizer, rules: opts.Rules}
	group := kind.NewGroup(authorizationv1.GroupName)
	group.VersionedResourcesStorageMap[authorizationv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"subjectaccessreviews": review[*authorizationv1.SubjectAccessReview]{
			singular: "subjectaccessreview", empty: &authorizationv1.SubjectAccessReview{},
			validate: validateSubjectAccess, answer: judge.subjectAccess,
		},
		"selfsubjectaccessreviews": review[*authorizationv1.SelfSubjectAccessReview]{
			singular: "selfsubjectaccessreview", empty: &authorizationv1.SelfSubjectAccessReview{},
			validate: validateSelfSubjectAccess, answer: judge.selfSubjectAccess,
		},
		"localsubjectaccessreviews": review[*authorizationv1.LocalSubjectAccessReview]{
			singular: "localsubjectaccessreview", empty: &authorizationv1.LocalSubjectAccessReview{}, namespaced: true,
			validate: validateLocalSubjectAccess, answer: judge.localSubjectAccess,
		},
		"selfsubjectrulesreviews": review[*authorizationv1.SelfSubjectRulesReview]{
			singular: "selfsubjectrulesreview", empty: &authorizationv1.SelfSubjectRulesReview{},
			validate: validateSelfSubjectRules, answer: judge.selfSubjectRules,
		},
	}
	return group, nil
}
