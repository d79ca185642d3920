// Package account lets a process act as service accounts.
package account

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// lifetime is the requested lifetime of a token: that of the tokens of pods. A server can
// grant less or more.
const lifetime = time.Hour

// requestTimeout bounds one request for a token. Requests that act as the account wait for
// it.
const requestTimeout = 10 * time.Second

// Config names the accounts and the client that requests their tokens.
type Config struct {
	// Client is the process's own identity. It needs create on
	// serviceaccounts/token of the accounts.
	Client *rest.Config
	// Namespace is where the accounts are.
	Namespace string
	// Transport, if not nil, is how the API is reached. It must not add credentials.
	Transport http.RoundTripper
	// Clock returns the time; nil is the real one.
	Clock clock.PassiveClock
}

// Accounts are the service accounts of a namespace. Their tokens live in
// memory alone.
type Accounts struct {
	config Config
	client corev1client.ServiceAccountsGetter

	mu      sync.Mutex // guards sources
	sources map[string]*source
}

// New returns the accounts of a namespace; it requests no token yet.
func New(cfg Config) (*Accounts, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	own := rest.CopyConfig(cfg.Client)
	own.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the client for service account tokens: %w", err)
	}
	return &Accounts{config: cfg, client: client.CoreV1(), sources: map[string]*source{}}, nil
}

// As returns the configuration to reach the API as an account. The first call
// for an account requests its token, so that it fails if the account does not
// exist.
func (a *Accounts) As(ctx context.Context, name string) (*rest.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	tokens, ok := a.sources[name]
	if !ok {
		tokens = &source{clock: a.config.Clock, request: func(ctx context.Context) (*authenticationv1.TokenRequestStatus, error) {
			return a.request(ctx, name)
		}}
		if _, err := tokens.current(ctx); err != nil {
			return nil, err
		}
		a.sources[name] = tokens
	}
	cfg := rest.AnonymousClientConfig(a.config.Client)
	cfg.Transport = a.config.Transport
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + name
	cfg.Wrap(transport.ResettableTokenSourceWrapTransport(tokens))
	return cfg, nil
}

func (a *Accounts) request(ctx context.Context, name string) (*authenticationv1.TokenRequestStatus, error) {
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime.Seconds()))}}
	answer, err := a.client.ServiceAccounts(a.config.Namespace).CreateToken(ctx, name, ask, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &MissingError{Namespace: a.config.Namespace, Name: name}
	case err != nil:
		return nil, fmt.Errorf("getting a token of the service account %s/%s: %w", a.config.Namespace, name, err)
	}
	return &answer.Status, nil
}

// MissingError reports that a service account does not exist.
type MissingError struct{ Namespace, Name string }

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("service account %s/%s does not exist", e.Namespace, e.Name)
}
