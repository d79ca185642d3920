package route53

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
	"github.com/certplane/certplane/internal/process/sigv4"
)

const (
	// tokenLifetime is how long tokens of service accounts are valid.
	tokenLifetime = 10 * time.Minute
	// sessionName is the name of sessions with assumed roles, in CloudTrail.
	sessionName = "cert-manager"
	// defaultAudience is the audience of tokens of service accounts.
	defaultAudience = "sts.amazonaws.com"
)

// configured is the configuration in a solver and its Secrets.
type configured struct {
	static sigv4.Credentials // empty without
	token  string            // of the service account; empty without
	role   string
}

// readConfigured reads the Secrets and the token of a solver.
func readConfigured(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderRoute53) (configured, error) {
	c := configured{role: strings.TrimSpace(spec.Role), static: sigv4.Credentials{KeyID: strings.TrimSpace(spec.AccessKeyID)}}
	if ref := spec.SecretAccessKeyID; ref != nil {
		keyID, err := readKeyID(ctx, env, spec, ref)
		if err != nil {
			return configured{}, err
		}
		c.static.KeyID = keyID
	}
	if ref := spec.SecretAccessKey; ref.Name != "" {
		secret, err := env.Secret(ctx, ref.Name, ref.Key)
		if err != nil {
			return configured{}, fmt.Errorf("error getting route53 secret access key: %w", err)
		}
		c.static.Secret = strings.TrimSpace(string(secret))
	}
	if spec.Auth == nil || spec.Auth.Kubernetes == nil || spec.Auth.Kubernetes.ServiceAccountRef == nil {
		return c, nil
	}
	token, err := readToken(ctx, env, spec.Auth.Kubernetes.ServiceAccountRef)
	c.token = token
	return c, err
}

func readKeyID(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderRoute53, ref *cmmeta.SecretKeySelector) (string, error) {
	switch {
	case spec.AccessKeyID != "":
		return "", errors.New("route53 accessKeyID and accessKeyIDSecretRef cannot both be specified")
	case ref.Key == "":
		return "", errors.New("route53 accessKeyIDSecretRef requires a key field to be specified")
	case ref.Name == "":
		return "", errors.New("route53 accessKeyIDSecretRef requires a name field to be specified")
	}
	keyID, err := env.Secret(ctx, ref.Name, ref.Key)
	if err != nil {
		return "", fmt.Errorf("error getting route53 secret access key id: %w", err)
	}
	return strings.TrimSpace(string(keyID)), nil
}

func readToken(ctx context.Context, env provider.Env, ref *acmev1.ServiceAccountRef) (string, error) {
	if ref.Name == "" {
		return "", errors.New("service account name is required for Kubernetes auth")
	}
	audiences := ref.TokenAudiences
	if len(audiences) == 0 {
		audiences = []string{defaultAudience}
	}
	token, err := env.Token(ctx, ref.Name, audiences, tokenLifetime)
	if err != nil {
		return "", fmt.Errorf("error getting service account token: %w", err)
	}
	return token, nil
}

// check reports what is missing.
func (c configured) check(ambient bool) error {
	var problem string
	switch {
	case c.role == "" && c.token != "":
		problem = "role must be set when web identity token is set"
	case c.static == (sigv4.Credentials{}) && !ambient && c.token == "":
		problem = "empty credentials; perhaps you meant to enable ambient credentials?"
	case (c.static.KeyID == "") != (c.static.Secret == ""):
		problem = "only one of access and secret key was provided"
	case restcall.CheckHeader(c.static.KeyID) != nil:
		problem = "the access key ID is invalid (does it contain a newline?)"
	default:
		return nil
	}
	return errors.New("unable to construct route53 provider: " + problem)
}

func (c configured) usesAmbient() bool { return c.static == (sigv4.Credentials{}) && c.token == "" }

// source makes credentials from the configuration of a solver.
type source struct {
	env      provider.Env
	host     ambient.Host
	metadata metadata
	place    place
}

func (s source) credentials(ctx context.Context, c configured) (sigv4.Credentials, error) {
	switch {
	case c.token != "":
		assumed, err := s.assumeWithToken(ctx, c.role, sessionName, c.token)
		if err != nil {
			return sigv4.Credentials{}, fmt.Errorf("unable to assume role with web identity: %w", err)
		}
		return assumed, nil
	case c.usesAmbient():
		found, err := s.ambient(ctx)
		if err != nil {
			return sigv4.Credentials{}, fmt.Errorf("unable to construct route53 provider: %w", err)
		}
		c.static = found
	}
	if c.role == "" {
		return c.static, nil
	}
	assumed, err := s.assume(ctx, c.role, c.static)
	if err != nil {
		return sigv4.Credentials{}, fmt.Errorf("unable to assume role: %w", err)
	}
	return assumed, nil
}

// ambient returns the credentials of the process: of variables, a role for the
// token in a file, the container, or the instance. Files of the AWS command line
// are not read.
func (s source) ambient(ctx context.Context) (sigv4.Credentials, error) {
	keyID, secret := s.host.Getenv("AWS_ACCESS_KEY_ID"), s.host.Getenv("AWS_SECRET_ACCESS_KEY")
	if keyID != "" && secret != "" {
		return sigv4.Credentials{KeyID: keyID, Secret: secret, Session: s.host.Getenv("AWS_SESSION_TOKEN")}, nil
	}
	file, role := s.host.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), s.host.Getenv("AWS_ROLE_ARN")
	if file == "" || role == "" {
		return s.fromMetadata(ctx)
	}
	token, err := s.host.ReadFile(file)
	if err != nil {
		return sigv4.Credentials{}, fmt.Errorf("reading AWS_WEB_IDENTITY_TOKEN_FILE: %w", err)
	}
	name := cmp.Or(s.host.Getenv("AWS_ROLE_SESSION_NAME"), sessionName)
	assumed, err := s.assumeWithToken(ctx, role, name, strings.TrimSpace(string(token)))
	if err != nil {
		return sigv4.Credentials{}, fmt.Errorf("unable to assume role with web identity: %w", err)
	}
	return assumed, nil
}
