package serviceaccount

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
)

// LegacyIssuer is the issuer in tokens in Secrets, on every server.
const LegacyIssuer = "kubernetes/serviceaccount"

// Labels of Secrets with tokens.
const (
	// LastUsedLabel is the day on which the token was last used.
	LastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// InvalidSinceLabel makes the token invalid.
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
	// DateFormat is the format of the day in both.
	DateFormat = time.DateOnly
)

// generatedWarning is Kubernetes' warning of tokens that were made with their
// account.
const generatedWarning = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens."

// LegacyClaims are the claims of a token in a Secret. The token is valid until
// the Secret or the account is deleted, and is for the API server.
type LegacyClaims struct {
	jwt.RegisteredClaims
	Namespace   string    `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName  string    `json:"kubernetes.io/serviceaccount/secret.name"`
	AccountName string    `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID  types.UID `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// IssueLegacy returns the token for the Secret of this name.
func (k *Keys) IssueLegacy(namespace, secret string, account Ref) (string, error) {
	token, err := k.sign(LegacyClaims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: LegacyIssuer, Subject: serviceaccount.MakeUsername(namespace, account.Name)},
		Namespace:        namespace,
		SecretName:       secret,
		AccountName:      account.Name,
		AccountUID:       account.UID,
	})
	if err != nil {
		return "", fmt.Errorf("signing the token for Secret %s/%s: %w", namespace, secret, err)
	}
	return token, nil
}

// validate returns an error if claims do not name a Secret and an account.
func (c LegacyClaims) validate() error {
	if c.Namespace == "" || c.SecretName == "" || c.AccountName == "" || c.AccountUID == "" {
		return errors.New("service account token lacks a claim")
	}
	if c.Subject != serviceaccount.MakeUsername(c.Namespace, c.AccountName) {
		return errors.New("service account token has an invalid subject")
	}
	return nil
}

// Legacy accepts the tokens in Secrets of type
// kubernetes.io/service-account-token as long as the Secret contains them.
type Legacy struct {
	// Authenticator has the keys, the audiences, the clock and the accounts.
	Authenticator
	// Secret returns the current Secret.
	Secret func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Account returns the current account, with the Secrets that it lists.
	Account func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	// MarkUsed labels a Secret with the day on which its token is used.
	MarkUsed func(ctx context.Context, secret *corev1.Secret, day string) error
}

var _ authenticator.Token = Legacy{}

// AuthenticateToken implements authenticator.Token.
func (l Legacy) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if !issuedBy(token, LegacyIssuer) {
		return nil, false, nil
	}
	now := l.Now()
	var claims LegacyClaims
	if err := l.verify(token, &claims, now); err != nil {
		return nil, false, err
	}
	if err := claims.validate(); err != nil {
		return nil, false, err
	}
	audiences, err := l.matchAudiences(ctx, l.Audiences)
	if err != nil {
		return nil, false, err
	}
	if err := l.checkSecret(ctx, token, claims, now); err != nil {
		return nil, false, err
	}
	binding := Binding{Namespace: claims.Namespace, Account: Ref{Name: claims.AccountName, UID: claims.AccountUID}}
	if err := l.checkAll(ctx, binding, now); err != nil {
		return nil, false, err
	}
	audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token", claims.Subject)
	l.warnIfGenerated(ctx, claims)
	return &authenticator.Response{User: binding.user(""), Audiences: audiences}, true, nil
}

// warnIfGenerated warns of a token whose Secret its account lists, as Kubernetes
// does: such Secrets were once made for each account, and the garbage collector
// of tokens may remove them. An account that cannot be read gives no warning.
func (l Legacy) warnIfGenerated(ctx context.Context, claims LegacyClaims) {
	account, err := l.Account(ctx, claims.Namespace, claims.AccountName)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("The account of a token cannot be read", "namespace", claims.Namespace, "name", claims.AccountName, "err", err)
		return
	}
	if !slices.ContainsFunc(account.Secrets, func(s corev1.ObjectReference) bool { return s.Name == claims.SecretName }) {
		return
	}
	warning.AddWarning(ctx, "", generatedWarning)
	audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-autogenerated-secret", claims.SecretName)
}

// checkSecret requires that the Secret contains the token and still belongs to its account.
// A copy of another type, or for another account, does not count.
func (l Legacy) checkSecret(ctx context.Context, token string, claims LegacyClaims, now time.Time) error {
	secret, err := l.Secret(ctx, claims.Namespace, claims.SecretName)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("The Secret of a token cannot be read", "namespace", claims.Namespace, "name", claims.SecretName, "err", err)
		return errInvalidated
	}
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil ||
		secret.Annotations[corev1.ServiceAccountNameKey] != claims.AccountName ||
		secret.Annotations[corev1.ServiceAccountUIDKey] != string(claims.AccountUID) ||
		subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0 {
		return errInvalidated
	}
	l.markUsed(ctx, secret, now)
	if secret.Labels[InvalidSinceLabel] != "" {
		return fmt.Errorf("the token in Secret %s/%s has been marked invalid: use tokens of the TokenRequest API, or remove the label %s from the Secret",
			secret.Namespace, secret.Name, InvalidSinceLabel)
	}
	return nil
}

// markUsed writes the day once. The day can be tomorrow if it was written by a server whose
// clock is ahead. A token is accepted even if the write fails.
func (l Legacy) markUsed(ctx context.Context, secret *corev1.Secret, now time.Time) {
	today, tomorrow := now.UTC().Format(DateFormat), now.UTC().AddDate(0, 0, 1).Format(DateFormat)
	if marked := secret.Labels[LastUsedLabel]; marked == today || marked == tomorrow {
		return
	}
	if err := l.MarkUsed(ctx, secret, today); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot label a Secret with the last use of its token", "secret", klog.KObj(secret), "err", err)
	}
}
