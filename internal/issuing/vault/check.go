package vault

import (
	"context"
	"errors"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// The reasons of the Ready condition.
const (
	// ReasonVerified: the issuer can log in, and its server is ready.
	ReasonVerified = "VaultVerified"
	// ReasonError: the spec is incomplete, the login fails, or the server is not
	// ready.
	ReasonError = "VaultError"
)

const (
	// grace is for how long an issuer stays ready although its server does not
	// answer.
	grace = 30 * time.Second
	// graceStep is the interval between checks during this time.
	graceStep = 10 * time.Second
	// longestPause is the longest pause between checks of an issuer whose server does not
	// answer.
	longestPause = 5 * time.Minute
)

// Check logs in, or uses the token that is kept, and asks the server whether it
// is ready.
func (b *backend) Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (issuing.Ready, error) {
	if problem := problemOf(of.GetSpec().Vault); problem != "" {
		return issuing.NotReady(ReasonError, "%s", problem), nil
	}
	i := b.issuerOf(of)
	err := b.pool.Verify(ctx, i, b.accessOf(i))
	if err == nil || !vault.Temporary(err) {
		b.failing.end(of.GetUID())
		return b.ready(err, now), nil
	}
	var pause *vault.UnavailableError
	if errors.As(err, &pause) && pause.RetryAfter > 0 && showsReady(of) { // nobody has asked the server
		return issuing.Ready{OK: true, Reason: ReasonVerified, Message: messageVerified, Again: now.Add(pause.RetryAfter)}, nil
	}
	since := b.failing.begin(of.GetUID(), now)
	if now.Sub(since) < grace && showsReady(of) {
		return issuing.Ready{OK: true, Reason: ReasonVerified, Message: messageVerified, Again: now.Add(graceStep)}, nil
	}
	r := b.ready(err, now)
	r.Retry, r.Again = nil, now.Add(pauseAfter(now.Sub(since)))
	return r, nil
}

// pauseAfter returns when to check an issuer again whose server has not answered
// for some time. No request calls such a server, so that it is back is found out
// here: after a tenth of the outage.
func pauseAfter(outage time.Duration) time.Duration {
	return min(max(outage/10, graceStep), longestPause)
}

const messageVerified = "Vault verified"

func (b *backend) ready(err error, now time.Time) issuing.Ready {
	if err == nil {
		return issuing.Ready{OK: true, Reason: ReasonVerified, Message: messageVerified, Again: now.Add(b.pool.NextCheck())}
	}
	text := vault.Text(err)
	r := issuing.NotInitialized(ReasonError, "Failed to verify Vault is initialized and unsealed: %s", text)
	if errors.As(err, new(*vault.InitError)) {
		r = issuing.NotInitialized(ReasonError, "Failed to initialize Vault client: %s", text)
	}
	r.Retry = errors.New(eventtext.Line(text))
	return r
}

// showsReady reports whether the status declares the current generation of the issuer
// ready.
func showsReady(of cmv1.GenericIssuer) bool {
	ready := certmanager.IssuerCondition(of, cmv1.IssuerConditionReady)
	return ready != nil && ready.Status == cmmeta.ConditionTrue && ready.Reason == ReasonVerified && ready.ObservedGeneration == of.GetGeneration()
}

// problemOf returns what is wrong with a spec, in the words and the order that
// clients of cert-manager.io know; empty if nothing is.
func problemOf(spec *cmv1.VaultIssuer) string {
	switch {
	case spec == nil:
		return "Vault config cannot be empty"
	case spec.Server == "" || spec.Path == "":
		return "Vault server and path are required fields"
	}
	auth := spec.Auth
	methods := 0
	for _, set := range []bool{auth.TokenSecretRef != nil, auth.AppRole != nil, auth.ClientCertificate != nil, auth.Kubernetes != nil, auth.AWS != nil} {
		if set {
			methods++
		}
	}
	role := auth.AppRole
	switch {
	case methods == 0:
		return "Vault tokenSecretRef, appRole, clientCertificate, kubernetes, or aws is required"
	case methods > 1:
		return "Multiple auth methods cannot be set on the same Vault issuer"
	case auth.TokenSecretRef != nil && auth.TokenSecretRef.Name == "":
		return "Vault Token auth requires tokenSecretRef.name"
	case role != nil && (role.RoleId == "" || role.SecretRef.Name == ""):
		return "Vault AppRole auth requires both roleId and tokenSecretRef.name"
	case role != nil && role.SecretRef.Key == "":
		return "Vault AppRole auth requires secretRef.key"
	}
	return problemOfKubernetes(auth.Kubernetes)
}

func problemOfKubernetes(auth *cmv1.VaultKubernetesAuth) string {
	switch {
	case auth == nil:
		return ""
	case auth.Role == "":
		return "Vault Kubernetes auth requires a role to be set"
	case auth.SecretRef.Name == "" && auth.ServiceAccountRef == nil:
		return "Vault Kubernetes auth requires either secretRef.name or serviceAccountRef.name to be set"
	case auth.SecretRef.Name != "" && auth.ServiceAccountRef != nil:
		return "Vault Kubernetes auth cannot be used with both secretRef.name and serviceAccountRef.name"
	}
	return ""
}
