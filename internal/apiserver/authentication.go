package apiserver

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apiserver/authn"
	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
	"github.com/certplane/certplane/internal/apiserver/registry/authentication/tokenrequest"
	"github.com/certplane/certplane/internal/frontend"
)

// useAuthentication makes generic accept the credentials that who accepts.
func useAuthentication(generic *genericapiserver.Config, who *authn.Authentication) {
	generic.SecureServing.ClientCA = who.ClientCAs
	generic.Authentication = genericapiserver.AuthenticationInfo{
		APIAudiences:        who.Audiences,
		Authenticator:       noted(who.Requests),
		RequestHeaderConfig: who.RequestHeader,
	}
}

// useFilters sets what each request passes: the library's filters and those of certplane in
// front of and behind them.
func useFilters(generic *genericapiserver.Config, console *Console, limits *limiter, revoked *revokedClients) {
	generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		api := genericapiserver.DefaultBuildHandlerChain(limits.withShares(handler), config)
		return withAuthenticated(limits.withDeadlines(revoked.wrap(console.wrap(api), config)))
	}
}

// identities contains what the API needs to issue tokens and to review them for other
// servers.
type identities struct {
	tokens        authenticator.Token
	audiences     authenticator.Audiences
	tokenRequests rest.Storage
}

func newIdentities(cfg Config, who *authn.Authentication, client kubernetes.Interface) identities {
	return identities{
		tokens:    who.Tokens,
		audiences: who.Audiences,
		tokenRequests: tokenrequest.New(tokenrequest.Options{
			Issuer:           who.Issuer,
			Objects:          client.CoreV1(),
			Audiences:        who.Audiences,
			MaxExpiration:    cfg.Authentication.ServiceAccounts.MaxTokenExpiration.Duration,
			ExtendExpiration: cfg.Authentication.ServiceAccounts.ExtendTokenExpiration,
			Now:              cfg.Clock.Now,
		}),
	}
}

// installAuthentication serves the documents with which other servers verify
// service account tokens, and starts who with the server.
func installAuthentication(server *genericapiserver.GenericAPIServer, cfg Config, who *authn.Authentication) error {
	keysURI := cmp.Or(cfg.Authentication.ServiceAccounts.KeysURI, cfg.Loopback.Host+serviceaccount.KeysPath)
	documents, err := who.Issuer.Documents(keysURI)
	if err != nil {
		return err
	}
	var rows []frontend.FrontEnd
	for path, handler := range documents {
		rows = append(rows, frontend.FrontEnd{Name: path, Path: path, Handler: handler})
	}
	if err := addFrontEnds(server.Handler.NonGoRestfulMux, server.AddReadyzChecks, rows); err != nil {
		return err
	}
	err = server.AddPostStartHook("start-authentication", func(hook genericapiserver.PostStartHookContext) error {
		who.Start(hook)
		return nil // the library ends the process when a hook fails
	})
	if err != nil {
		return fmt.Errorf("starting the authentication with the server: %w", err)
	}
	return nil
}
