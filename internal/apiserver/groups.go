package apiserver

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/authn"
	"github.com/certplane/certplane/internal/registry/authentication"
	"github.com/certplane/certplane/internal/registry/authorization"
	"github.com/certplane/certplane/internal/registry/certificates"
	"github.com/certplane/certplane/internal/registry/rbac"
)

// installGroups adds every served API group to server.
func installGroups(server *genericapiserver.GenericAPIServer, config *genericapiserver.Config, cfg APIConfig, who *authn.Authentication) error {
	codecs := api.NewCodecs(cfg.cbor())
	storage := config.RESTOptionsGetter
	authz := config.Authorization.Authorizer

	certificatesGroup, err := certificates.NewAPIGroup(certificates.Options{
		RESTOptions:  storage,
		Codecs:       codecs,
		ServeV1beta1: cfg.servesCSRv1beta1(),
		CSRDuration:  cfg.csrDuration(),
	})
	if err != nil {
		return err
	}
	rbacGroup, err := rbac.NewAPIGroup(rbac.Options{RESTOptions: storage, Codecs: codecs, Authorizer: authz})
	if err != nil {
		return err
	}
	authorizationGroup, err := authorization.NewAPIGroup(authorization.Options{Codecs: codecs, Authorizer: authz, Rules: config.RuleResolver})
	if err != nil {
		return err
	}
	authenticationGroup, err := authentication.NewAPIGroup(authentication.Options{Codecs: codecs, Tokens: who.Tokens, Audiences: who.Audiences})
	if err != nil {
		return err
	}
	groups := []*genericapiserver.APIGroupInfo{&authenticationGroup, &authorizationGroup, &certificatesGroup, &rbacGroup}
	for _, group := range groups {
		// The library chooses by a feature gate of the whole process.
		group.NegotiatedSerializer = codecs
	}
	if err := server.InstallAPIGroups(groups...); err != nil {
		return fmt.Errorf("installing the API groups: %w", err)
	}
	return nil
}
