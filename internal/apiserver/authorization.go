package apiserver

import (
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/apiserver/authz"
)

// useAuthorization makes generic call who, which follows the changes of its
// configuration while the server runs.
func useAuthorization(generic *genericapiserver.Config, who *authz.Authorizer) error {
	generic.Authorization.Authorizer = authorizer.AuthorizerFunc(who.Authorize)
	generic.RuleResolver = who
	err := generic.AddPostStartHook("reload-authorization", func(hook genericapiserver.PostStartHookContext) error {
		go who.Watch(hook)
		return nil
	})
	if err != nil {
		return fmt.Errorf("following the authorization configuration: %w", err)
	}
	return nil
}
