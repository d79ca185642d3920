package configfile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
)

// cacheTTL is how long a token stays accepted without another check: some
// issuers keep claims elsewhere and have to be called for them.
const cacheTTL = 10 * time.Second

// issuers are OpenID Connect issuers whose tokens are accepted until stop is
// called.
type issuers struct {
	tokens authenticator.Token
	health []func() error
	stop   context.CancelFunc
}

// newIssuers starts to fetch the issuers' keys. It continues until ctx ends.
func newIssuers(ctx context.Context, configs []apiserver.JWTAuthenticator, cfg Config) (*issuers, error) {
	ctx, stop := context.WithCancel(ctx)
	all := &issuers{stop: stop}
	var tokens []authenticator.Token
	for i, config := range configs {
		issuer, err := newIssuer(ctx, config, cfg.OwnIssuers)
		if err != nil {
			stop()
			return nil, fmt.Errorf("jwt[%d]: %w", i, err)
		}
		tokens = append(tokens, issuer)
		all.health = append(all.health, issuer.HealthCheck)
	}
	agnostic := authenticator.WrapAudienceAgnosticToken(cfg.Audiences, union.NewFailOnError(tokens...))
	all.tokens = cache.New(agnostic, false, cacheTTL, 0)
	return all, nil
}

func newIssuer(ctx context.Context, config apiserver.JWTAuthenticator, ownIssuers []string) (oidc.AuthenticatorTokenWithHealthCheck, error) {
	options := oidc.Options{
		JWTAuthenticator:     config,
		SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(),
		DisallowedIssuers:    ownIssuers,
	}
	if bundle := config.Issuer.CertificateAuthority; bundle != "" {
		ca, err := dynamiccertificates.NewStaticCAContent("oidc", []byte(bundle))
		if err != nil {
			return nil, fmt.Errorf("issuer.certificateAuthority: %w", err)
		}
		options.CAContentProvider = ca
	}
	return oidc.New(ctx, options)
}

// wait returns when every issuer's keys are known.
func (s *issuers) wait(ctx context.Context) error {
	var unhealthy error
	err := wait.PollUntilContextTimeout(ctx, healthPoll, healthTimeout, true, func(context.Context) (bool, error) {
		unhealthy = s.unhealthy()
		return unhealthy == nil, nil
	})
	if err != nil {
		return errors.Join(err, unhealthy)
	}
	return nil
}

func (s *issuers) unhealthy() error {
	var errs []error
	for _, check := range s.health {
		errs = append(errs, check())
	}
	return errors.Join(errs...)
}
