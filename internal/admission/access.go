package admission

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// access checks the rights of users, for checks that a webhook shares.
type access struct {
	authz authorizer.UnconditionalAuthorizer
}

// authorize reports whether a user may do something with resources.
func (p access) authorize(ctx context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string][]string, len(who.Extra))
	for key, values := range who.Extra {
		extra[key] = values
	}
	decision, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User:            &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra},
		Verb:            what.Verb,
		Namespace:       what.Namespace,
		APIGroup:        what.Group,
		APIVersion:      what.Version,
		Resource:        what.Resource,
		Subresource:     what.Subresource,
		Name:            what.Name,
		ResourceRequest: true,
	})
	if err != nil {
		// As in an access review: an error in one user's rules decides nothing,
		// and other rules may still allow it.
		klog.FromContext(ctx).V(3).Info("Cannot authorize a write", "user", who.Username, "verb", what.Verb, "resource", what.Resource, "name", what.Name, "err", err)
	}
	return decision == authorizer.DecisionAllow, nil
}

// userOf returns the requesting user in the form that webhooks receive.
func userOf(a admission.Attributes) authenticationv1.UserInfo {
	who := a.GetUserInfo()
	if who == nil {
		return authenticationv1.UserInfo{}
	}
	info := authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
	for key, values := range who.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}
