package dns

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
)

// open returns the provider that a spec names, with the credentials that its
// Secrets have now.
func (s *Solver) open(ctx context.Context, task solver.Task, spec *Spec, action string) (provider.Provider, error) {
	row, err := s.choose(spec)
	if err != nil {
		return nil, err
	}
	if row.open == nil {
		return &hook{calls: s.cfg.Webhooks, spec: spec.Webhook, request: s.request(task, spec, action)}, nil
	}
	return row.open(ctx, s.env(task), spec)
}

func (s *Solver) env(task solver.Task) provider.Env {
	client := s.cfg.HTTP
	var refuse func(netip.Addr) error
	if s.cfg.RefuseAddress != nil && task.Challenge.Spec.IssuerRef.Kind != cmv1.ClusterIssuerKind {
		client, refuse = s.cfg.GuardedHTTP, s.cfg.RefuseAddress
	}
	return provider.Env{
		HTTP: client, RefuseAddress: refuse,
		Metadata: s.cfg.Metadata,
		Secret: func(ctx context.Context, name, key string) ([]byte, error) {
			return s.secret(ctx, types.NamespacedName{Namespace: task.Secrets, Name: name}, key)
		},
		Token: func(ctx context.Context, account string, audiences []string, lifetime time.Duration) (string, error) {
			return s.token(ctx, types.NamespacedName{Namespace: task.Secrets, Name: account}, audiences, lifetime)
		},
		Ambient: s.ambient(task),
		Now:     s.cfg.Clock.Now,
	}
}

// ambient reports whether the solvers of an issuer may use the credentials of
// this process.
func (s *Solver) ambient(task solver.Task) bool {
	settings := s.cfg.Settings
	switch {
	case task.Challenge.Spec.IssuerRef.Kind != cmv1.ClusterIssuerKind:
		return settings.IssuerAmbientCredentials
	case settings.ClusterIssuerAmbientCredentials != nil:
		return *settings.ClusterIssuerAmbientCredentials
	default:
		return s.cfg.ClusterAmbient
	}
}

func (s *Solver) secret(ctx context.Context, name types.NamespacedName, key string) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := s.cfg.Client.Get(ctx, name, secret); err != nil {
		return nil, err
	}
	value, ok := secret.Data[key]
	if !ok {
		return nil, &provider.KeyError{Secret: name.String(), Key: key}
	}
	return value, nil
}

func (s *Solver) token(ctx context.Context, name types.NamespacedName, audiences []string, lifetime time.Duration) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: new(int64(lifetime / time.Second)),
	}}
	if err := s.cfg.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("requesting a token of service account %s: %w", name, err)
	}
	return request.Status.Token, nil
}

// request returns what a webhook is asked.
func (s *Solver) request(task solver.Task, spec *Spec, action string) webhook.Request {
	r := webhook.Request{
		Action: action, Type: "dns-01", DNSName: task.Challenge.Spec.DNSName, Key: task.Challenge.Spec.Key,
		ResourceNamespace: task.Secrets, AllowAmbientCredentials: s.ambient(task), Config: spec.Webhook.Config,
	}
	if uid := task.Challenge.UID; uid != "" {
		r.UID = string(uid) + "-" + action
	}
	return r
}

// hook is a provider.Provider that calls a webhook.
type hook struct {
	calls   *webhook.Caller
	spec    *acmev1.ACMEIssuerDNS01ProviderWebhook
	request webhook.Request
}

// Present implements provider.Provider.
func (h *hook) Present(ctx context.Context, r provider.Record) error { return h.call(ctx, r) }

// CleanUp implements provider.Provider.
func (h *hook) CleanUp(ctx context.Context, r provider.Record) error { return h.call(ctx, r) }

func (h *hook) call(ctx context.Context, r provider.Record) error {
	request := h.request
	request.ResolvedFQDN, request.ResolvedZone = r.FQDN, r.Zone
	return h.calls.Call(ctx, h.spec.GroupName, h.spec.SolverName, request)
}
