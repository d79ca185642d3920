package apiserver

import (
	"cmp"
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/authn"
	"github.com/certplane/certplane/internal/authn/serviceaccount"
)

// useAuthentication has generic honour the credentials that who knows.
func useAuthentication(generic *genericapiserver.Config, who *authn.Authentication) {
	generic.SecureServing.ClientCA = who.ClientCAs
	generic.Authentication = genericapiserver.AuthenticationInfo{
		APIAudiences:        who.Audiences,
		Authenticator:       who.Requests,
		RequestHeaderConfig: who.RequestHeader,
	}
}

// installAuthentication serves the documents by which others verify service
// account tokens, and has who start with the server.
func installAuthentication(server *genericapiserver.GenericAPIServer, cfg Config, who *authn.Authentication) error {
	keysURI := cmp.Or(cfg.Authentication.ServiceAccounts.KeysURI, cfg.Loopback.Host+serviceaccount.KeysPath)
	documents, err := who.Issuer.Documents(keysURI)
	if err != nil {
		return err
	}
	for path, handler := range documents {
		server.Handler.NonGoRestfulMux.Handle(path, handler)
	}
	err = server.AddPostStartHook("start-authentication", func(hook genericapiserver.PostStartHookContext) error {
		who.Start(hook)
		return nil
	})
	if err != nil {
		return fmt.Errorf("starting the authentication with the server: %w", err)
	}
	return nil
}
