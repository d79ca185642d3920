// Package authn finds out who sends a request.
package authn

import (
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Config names the credentials that are honoured.
type Config struct {
	// ClientCA signs client certificates: the subject's common name is the
	// user, its organizations are the user's groups.
	ClientCA dynamiccertificates.CAContentProvider
	// Tokens maps the bearer tokens of the parts inside this process to their
	// identities.
	Tokens map[string]*user.DefaultInfo
}

// anonymousPaths are open to requests without credentials, so that load
// balancers and monitors need none. All other paths answer 401 to them.
var anonymousPaths = []apiserver.AnonymousAuthCondition{
	{Path: "/healthz"}, {Path: "/livez"}, {Path: "/readyz"}, {Path: "/version"}, {Path: "/version/"},
}

// New returns the authenticator for cfg. A credential that is presented and
// does not hold fails the request: it never falls back to anonymous.
func New(cfg Config) authenticator.Request {
	credentials := union.New(
		x509.NewDynamic(cfg.ClientCA.VerifyOptions, x509.CommonNameUserConversion),
		authenticatorfactory.NewFromTokens(cfg.Tokens, nil),
	)
	return union.NewFailOnError(
		group.NewAuthenticatedGroupAdder(credentials),
		anonymous.NewAuthenticator(anonymousPaths),
	)
}
