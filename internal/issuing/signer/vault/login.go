package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// login is how an issuer gets a token.
type login struct {
	// method is the label in metrics.
	method string
	// token is set if the issuer has a token, and needs no login.
	token credential
	// prepare makes the call that logs in.
	prepare func(ctx context.Context) (call, error)
	// pair is the client certificate for the login alone, if it has one.
	pair *pair
	// wrap adds to the errors of the login, failed to those of its call.
	wrap   func(error) error
	failed string
}

// lease is a token as a server has granted it.
type lease struct {
	token     credential
	duration  time.Duration // 0 means that it does not end
	renewable bool
	// uses is the number of times that it can be used; 0 means without a limit.
	uses int
	// batch tokens cannot be revoked.
	batch bool
}

var errNoAuth = errors.New("error initializing Vault client: unable to load credentials. One of: tokenSecretRef, appRoleSecretRef, clientCertificate, Kubernetes, or AWS auth must be set")

// newLogin reads what the login of an issuer needs.
func (p *Pool) newLogin(ctx context.Context, r *reader, i Issuer, access Access) (login, error) {
	switch auth := i.Auth; {
	case auth.Token != nil:
		return r.tokenLogin(ctx, *auth.Token)
	case auth.AppRole != nil:
		return r.appRoleLogin(ctx, *auth.AppRole)
	case auth.ClientCertificate != nil:
		return r.certificateLogin(ctx, *auth.ClientCertificate)
	case auth.Kubernetes != nil:
		made, err := r.kubernetesLogin(ctx, i, *auth.Kubernetes, access)
		return made.prefixed("while requesting a Vault token using the Kubernetes auth"), prefix("while requesting a Vault token using the Kubernetes auth", err)
	case auth.AWS != nil:
		made, err := p.awsLogin(i, *auth.AWS, access)
		return made.prefixed("while requesting a Vault token using the AWS auth"), prefix("while requesting a Vault token using the AWS auth", err)
	}
	return login{}, errNoAuth
}

// NoAuth reports whether an issuer has no way to log in.
func NoAuth(err error) bool { return errors.Is(err, errNoAuth) }

func (l login) prefixed(text string) login {
	l.wrap = func(err error) error { return prefix(text, err) }
	return l
}

func prefix(text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", text, err)
}

func (r *reader) tokenLogin(ctx context.Context, ref SecretKey) (login, error) {
	token, err := r.value(ctx, ref, keyToken)
	if err != nil {
		return login{}, err
	}
	if err := checkToken(token); err != nil {
		return login{}, err
	}
	return login{method: "token", token: token}, nil
}

// checkToken refuses what cannot be in a header. Errors never contain any part of it.
func checkToken(token credential) error {
	if strings.ContainsFunc(string(token), func(c rune) bool { return c < ' ' || c > '~' }) {
		return errors.New("configured Vault token contains non-printable characters and cannot be used")
	}
	return nil
}

func (r *reader) appRoleLogin(ctx context.Context, role AppRole) (login, error) {
	id, err := r.value(ctx, role.SecretID, "")
	if err != nil {
		return login{}, err
	}
	mount := role.Mount
	if mount == "" {
		mount = "approle"
	}
	at, err := loginPath("auth/"+strings.Trim(mount, "/"), "")
	if err != nil {
		return login{}, err
	}
	roleID := credential(strings.TrimSpace(role.RoleID))
	return login{method: "approle", failed: "error logging in to Vault server", prepare: func(context.Context) (call, error) {
		body := map[string]string{"role_id": string(roleID), "secret_id": string(id)}
		return call{method: http.MethodPost, path: at, body: body, sent: []credential{id}}, nil
	}}, nil
}

func (r *reader) certificateLogin(ctx context.Context, by ClientCertificate) (login, error) {
	at, err := loginPath(by.MountPath, "/v1/auth/cert")
	if err != nil {
		return login{}, err
	}
	made := login{method: "cert", failed: "error calling Vault server", prepare: func(context.Context) (call, error) {
		return call{method: http.MethodPost, path: at, body: map[string]string{"name": by.Role}}, nil
	}}
	if by.SecretName == "" {
		return made, nil
	}
	secret, err := r.secret(ctx, by.SecretName)
	if err != nil {
		return login{}, err
	}
	made.pair = &pair{secret.Data[keyCert], secret.Data[keyKey]}
	for _, key := range []string{keyCert, keyKey} {
		if len(secret.Data[key]) == 0 {
			return login{}, fmt.Errorf("no data for %s in secret '%s/%s'", key, r.owner, by.SecretName)
		}
	}
	_, err = connection{pairs: []pair{*made.pair}}.tlsConfig()
	return made, err
}

func (r *reader) kubernetesLogin(ctx context.Context, i Issuer, by Kubernetes, access Access) (login, error) {
	at, err := loginPath(by.MountPath, "/v1/auth/kubernetes")
	if err != nil {
		return login{}, err
	}
	token := func(ctx context.Context) (credential, error) { return r.value(ctx, by.JWT, keyToken) }
	if by.JWT.Name != "" {
		if _, err := token(ctx); err != nil {
			return login{}, err
		}
	} else if by.ServiceAccount == nil {
		return login{}, errNoAuth
	} else {
		audiences := append(append([]string(nil), by.ServiceAccount.Audiences...), i.audience(), i.Server)
		token = func(ctx context.Context) (credential, error) {
			return serviceAccountToken(ctx, i, access, by.ServiceAccount.Name, audiences)
		}
	}
	return login{method: "kubernetes", failed: "error calling Vault server", prepare: func(ctx context.Context) (call, error) {
		jwt, err := token(ctx)
		if err != nil {
			return call{}, err
		}
		body := map[string]string{"role": by.Role, "jwt": string(jwt)}
		return call{method: http.MethodPost, path: at, body: body, sent: []credential{jwt}}, nil
	}}, nil
}

func serviceAccountToken(ctx context.Context, i Issuer, access Access, name string, audiences []string) (credential, error) {
	token, err := access.Token(ctx, name, audiences)
	if err != nil {
		// As text: that a service account is missing is not that a Secret is missing.
		return "", fmt.Errorf("while requesting a token for the service account %s/%s: %v", i.SecretNamespace, name, err)
	}
	return credential(strings.TrimSpace(token)), nil
}

// logIn gets a token from the server. at is the server as the login reaches it.
func (p *Pool) logIn(ctx context.Context, at *server, i Issuer, l login) (*lease, error) {
	granted, err := p.askToken(ctx, at, i, l)
	if err != nil && l.wrap != nil {
		err = l.wrap(err)
	}
	p.metrics.loggedIn(l.method, err)
	return granted, err
}

func (p *Pool) askToken(ctx context.Context, at *server, i Issuer, l login) (*lease, error) {
	c, err := l.prepare(ctx)
	if err != nil {
		return nil, &accessError{err}
	}
	c.operation, c.namespace = opLogin, i.VaultNamespace
	body, err := at.do(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.failed, err)
	}
	return readLease(body)
}

// readLease reads the answer to a login or a renewal. Its errors do not contain parts of
// the answer.
func readLease(body []byte) (*lease, error) {
	var answer struct {
		Auth *struct {
			Token     string `json:"client_token"`
			Duration  int64  `json:"lease_duration"`
			Renewable bool   `json:"renewable"`
			Uses      int    `json:"num_uses"`
			Type      string `json:"token_type"`
		} `json:"auth"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("unable to decode JSON payload: %w", err)
	}
	if answer.Auth == nil || answer.Auth.Token == "" {
		return nil, errors.New("no token returned")
	}
	token := credential(answer.Auth.Token)
	if err := checkToken(token); err != nil {
		return nil, err
	}
	seconds := min(max(answer.Auth.Duration, 0), int64(10*365*24*time.Hour/time.Second))
	return &lease{
		token: token, duration: time.Duration(seconds) * time.Second, renewable: answer.Auth.Renewable,
		uses: max(answer.Auth.Uses, 0), batch: answer.Auth.Type == "batch",
	}, nil
}
