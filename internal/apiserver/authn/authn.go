// Package authn authenticates the sender of a request.
package authn

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/apiserver/authn/bootstraptoken"
	"github.com/certplane/certplane/internal/apiserver/authn/configfile"
	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
)

// Config has the credentials that are accepted.
type Config struct {
	// Settings are set by the operator.
	Settings Settings
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// ServerID distinguishes servers in metrics.
	ServerID string
	// ClientCAs sign client certificates: the subject's common name is the
	// user, its organizations are the user's groups. A provider may have no CA
	// at first.
	ClientCAs []dynamiccertificates.CAContentProvider
	// Tokens maps the bearer tokens of the components in this process to their
	// identities.
	Tokens map[string]*user.DefaultInfo
	// ServiceAccountKey signs the tokens of service accounts.
	ServiceAccountKey crypto.Signer
	// Loopback is the configuration with which the server reads the objects
	// behind credentials.
	Loopback *rest.Config
}

// Authentication authenticates users. It is complete once Start has returned.
type Authentication struct {
	// Requests authenticates requests.
	Requests authenticator.Request
	// Tokens authenticates bearer tokens.
	Tokens authenticator.Token
	// Audiences are the audiences of the API server.
	Audiences authenticator.Audiences
	// ClientCAs are all CAs of client certificates, for the TLS handshake. The
	// caller must run it to follow changes of the files.
	ClientCAs dynamiccertificates.CAContentProvider
	// UserCAs are those of ClientCAs that sign certificates of users, as opposed to
	// certificates of a proxy that names users.
	UserCAs dynamiccertificates.CAContentProvider
	// RequestHeader is nil if no proxy is trusted.
	RequestHeader *authenticatorfactory.RequestHeaderConfig
	// Issuer issues the tokens of service accounts.
	Issuer serviceaccount.Issuer

	starts []func(context.Context)
}

// anonymousPaths can be read without credentials, so that load balancers and
// monitors need none. All other paths answer 401 to requests without
// credentials.
var anonymousPaths = []apiserver.AnonymousAuthCondition{
	{Path: "/healthz"}, {Path: "/livez"}, {Path: "/readyz"}, {Path: "/version"}, {Path: "/version/"},
}

// New returns what authenticates with the credentials of cfg. An invalid
// credential fails the request: it never falls back to anonymous.
func New(cfg Config) (*Authentication, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	a := &Authentication{Audiences: cfg.Settings.ServiceAccounts.audiences()}
	accounts, err := a.serviceAccounts(cfg)
	if err != nil {
		return nil, err
	}
	certificates, err := a.certificates(cfg, accounts)
	if err != nil {
		return nil, err
	}
	anyone, tokens, err := a.tokens(cfg, accounts)
	if err != nil {
		return nil, err
	}
	credentials := union.New(append(certificates, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))...)
	a.Requests = union.NewFailOnError(group.NewAuthenticatedGroupAdder(credentials), anyone)
	a.Tokens = group.NewTokenGroupAdder(tokens, []string{user.AllAuthenticated})
	return a, nil
}

// Start begins to watch the objects on which credentials depend, until ctx
// ends.
func (a *Authentication) Start(ctx context.Context) {
	for _, start := range a.starts {
		start(ctx)
	}
}

// tokens returns the authenticators of bearer tokens, those that need no
// network first, and the authenticator of requests without credentials.
func (a *Authentication) tokens(cfg Config, accounts serviceaccount.Authenticator) (anyone authenticator.Request, tokens authenticator.Token, err error) {
	legacy, err := legacyTokens(cfg, accounts)
	if err != nil {
		return nil, nil, err
	}
	all := []authenticator.Token{a.withoutAudiences(tokenfile.New(cfg.Tokens)), accounts, legacy}
	if cfg.Settings.Bootstrap.Tokens {
		bootstrap, err := a.bootstrapTokens(cfg)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, bootstrap)
	}
	anyone = anonymous.NewAuthenticator(anonymousPaths)
	if cfg.Settings.ConfigFile != "" {
		file, err := a.configFile(cfg)
		if err != nil {
			return nil, nil, err
		}
		anyone, all = file, append(all, file)
	}
	if cfg.Settings.Webhook.Kubeconfig != "" {
		webhook, err := cfg.Settings.Webhook.open(a.Audiences)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, webhook)
	}
	return anyone, tokenunion.New(all...), nil
}

// withoutAudiences accepts tokens without audiences, for the API server.
func (a *Authentication) withoutAudiences(tokens authenticator.Token) authenticator.Token {
	return authenticator.WrapAudienceAgnosticToken(a.Audiences, tokens)
}

func (a *Authentication) serviceAccounts(cfg Config) (serviceaccount.Authenticator, error) {
	settings := cfg.Settings.ServiceAccounts
	former, err := settings.formerKeys()
	if err != nil {
		return serviceaccount.Authenticator{}, err
	}
	keys, err := serviceaccount.NewKeys(cfg.ServiceAccountKey, former...)
	if err != nil {
		return serviceaccount.Authenticator{}, err
	}
	objects, err := serviceaccount.NewObjects(cfg.Loopback)
	if err != nil {
		return serviceaccount.Authenticator{}, err
	}
	a.starts = append(a.starts, objects.Start)
	a.Issuer = serviceaccount.Issuer{Name: settings.Issuer, Keys: keys}
	return serviceaccount.Authenticator{
		Issuers:   settings.issuers(),
		Keys:      keys,
		Audiences: a.Audiences,
		Lookup:    objects.Find,
		Now:       cfg.Clock.Now,
	}, nil
}

// legacyTokens accepts the tokens in Secrets. The Secret is read for each
// request: deleting it ends its token immediately.
func legacyTokens(cfg Config, accounts serviceaccount.Authenticator) (serviceaccount.Legacy, error) {
	client, err := kubernetes.NewForConfig(cfg.Loopback)
	if err != nil {
		return serviceaccount.Legacy{}, fmt.Errorf("making the client for tokens in Secrets: %w", err)
	}
	return serviceaccount.Legacy{
		Authenticator: accounts,
		Secret: func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			return client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Account: func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
			return client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		MarkUsed: func(ctx context.Context, secret *corev1.Secret, day string) error {
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
				"uid": secret.UID, "labels": map[string]string{serviceaccount.LastUsedLabel: day},
			}})
			if err != nil {
				return err
			}
			_, err = client.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}, nil
}

func (a *Authentication) bootstrapTokens(cfg Config) (authenticator.Token, error) {
	client, err := kubernetes.NewForConfig(cfg.Loopback)
	if err != nil {
		return nil, fmt.Errorf("making the client for bootstrap tokens: %w", err)
	}
	secrets := bootstraptoken.NewSecrets(client)
	a.starts = append(a.starts, secrets.Start)
	return a.withoutAudiences(bootstraptoken.Authenticator{Get: secrets.Get, Now: cfg.Clock.Now}), nil
}

func (a *Authentication) configFile(cfg Config) (*configfile.File, error) {
	file, err := configfile.Open(configfile.Config{
		Path:       cfg.Settings.ConfigFile,
		ServerID:   cfg.ServerID,
		Audiences:  a.Audiences,
		OwnIssuers: cfg.Settings.ServiceAccounts.issuers(),
		Anonymous:  anonymousPaths,
	})
	if err != nil {
		return nil, fmt.Errorf("authentication.configFile: %w", err)
	}
	a.starts = append(a.starts, file.Start)
	return file, nil
}
