package serviceaccount

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/pki"
)

// legacySecret is the Secret of a token.
func legacySecret(token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "s", Annotations: map[string]string{
			corev1.ServiceAccountNameKey: "builder", corev1.ServiceAccountUIDKey: "u-builder",
		}},
		Type: corev1.SecretTypeServiceAccountToken,
		Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)},
	}
}

func TestLegacyTokenOnTheWire(t *testing.T) {
	token, err := newKeys(t, newSigner(t, pki.ECDSAP256)).IssueLegacy("ci", "s", Ref{"builder", "u-builder"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ci:builder",
		"kubernetes.io/serviceaccount/namespace":            "ci",
		"kubernetes.io/serviceaccount/secret.name":          "s",
		"kubernetes.io/serviceaccount/service-account.name": "builder",
		"kubernetes.io/serviceaccount/service-account.uid":  "u-builder",
	}
	if diff := cmp.Diff(want, decode(t, strings.Split(token, ".")[1])); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestLegacyTokens(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	const invalidated, today = "has been invalidated", "2030-05-17"
	tests := []struct {
		reason string
		claims func(*LegacyClaims)
		secret func(*corev1.Secret)
		change func(objects)
		wanted authenticator.Audiences
		keys   *Keys // the keys that have signed
		marked string
		want   string // part of the error, or "" for success
	}{
		{reason: "first use", marked: today},
		{reason: "used today", secret: func(s *corev1.Secret) { s.Labels = map[string]string{LastUsedLabel: today} }},
		{reason: "used tomorrow, says a clock that is ahead", secret: func(s *corev1.Secret) { s.Labels = map[string]string{LastUsedLabel: "2030-05-18"} }},
		{reason: "used yesterday", secret: func(s *corev1.Secret) { s.Labels = map[string]string{LastUsedLabel: "2030-05-16"} }, marked: today},
		{reason: "for the API, as a review asks", wanted: authenticator.Audiences{"other", "api"}, marked: today},
		{reason: "for somebody else", wanted: authenticator.Audiences{"vault"}, want: `invalid for the target audiences ["vault"]`},
		{reason: "marked invalid", secret: func(s *corev1.Secret) { s.Labels = map[string]string{InvalidSinceLabel: "2030-01-01"} }, marked: today, want: "marked invalid"},
		{reason: "the Secret is gone", secret: func(s *corev1.Secret) { s.Name = "other" }, want: invalidated},
		{reason: "the Secret is about to go", secret: func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: testNow} }, want: invalidated},
		{reason: "the Secret has another token", secret: func(s *corev1.Secret) { s.Data[corev1.ServiceAccountTokenKey] = []byte("x") }, want: invalidated},
		{reason: "the Secret has none", secret: func(s *corev1.Secret) { s.Data = nil }, want: invalidated},
		{reason: "a copy of another type", secret: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, want: invalidated},
		{reason: "the Secret names another account", secret: func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "deployer" }, want: invalidated},
		{reason: "the Secret names another UID", secret: func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "u-2" }, want: invalidated},
		{reason: "the account is gone", change: func(o objects) { delete(o, "serviceaccounts/ci/builder") }, marked: today, want: "does not exist or has been deleted"},
		{reason: "the account was made again", change: func(o objects) { o["serviceaccounts/ci/builder"] = object("u-2") }, marked: today, want: "does not match"},
		{reason: "a subject that is not the account", claims: func(c *LegacyClaims) { c.Subject = "system:serviceaccount:kube-system:root" }, want: "invalid subject"},
		{reason: "no Secret's name", claims: func(c *LegacyClaims) { c.SecretName = "" }, want: "lacks a claim"},
		{reason: "expired", claims: func(c *LegacyClaims) { c.ExpiresAt = jwt.NewNumericDate(testNow.Add(-time.Hour)) }, want: "has expired"},
		{reason: "signed by somebody else", keys: newKeys(t, newSigner(t, pki.ECDSAP256)), want: "invalid signature"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			claims := LegacyClaims{
				RegisteredClaims: jwt.RegisteredClaims{Issuer: LegacyIssuer, Subject: "system:serviceaccount:ci:builder"},
				Namespace:        "ci", SecretName: "s", AccountName: "builder", AccountUID: "u-builder",
			}
			if tt.claims != nil {
				tt.claims(&claims)
			}
			if tt.keys == nil {
				tt.keys = keys
			}
			token, err := tt.keys.sign(claims)
			if err != nil {
				t.Fatal(err)
			}
			secret, found, marked := legacySecret(token), existing(), ""
			if tt.secret != nil {
				tt.secret(secret)
			}
			if tt.change != nil {
				tt.change(found)
			}
			who := Legacy{
				Authenticator: newAuthenticator(keys, found, testNow),
				Secret: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
					if namespace != secret.Namespace || name != secret.Name {
						return nil, errors.New("not found")
					}
					return secret, nil
				},
				Account: func(context.Context, string, string) (*corev1.ServiceAccount, error) {
					return nil, errors.New("the store is slow") // there is no warning, and the token is accepted
				},
				MarkUsed: func(_ context.Context, _ *corev1.Secret, day string) error {
					marked = day
					return errors.New("the store is full") // the token is accepted nevertheless
				},
			}
			ctx := t.Context()
			if tt.wanted != nil {
				ctx = authenticator.WithAudiences(ctx, tt.wanted)
			}
			got, ok, err := who.AuthenticateToken(ctx, token)
			if ok != (tt.want == "") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("%v, %v, want %q", ok, err, tt.want)
			}
			if marked != tt.marked {
				t.Errorf("marked with %q, want %q", marked, tt.marked)
			}
			if !ok {
				return
			}
			want := &authenticator.Response{Audiences: authenticator.Audiences{"api"}, User: &user.DefaultInfo{
				Name: "system:serviceaccount:ci:builder", UID: "u-builder", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci"},
			}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// A token is accepted only by the authenticator for its kind.
func TestLegacyTokensAreNotBoundTokens(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	token, err := keys.IssueLegacy("ci", "s", Ref{"builder", "u-builder"})
	if err != nil {
		t.Fatal(err)
	}
	bound := newAuthenticator(keys, existing(), testNow)
	if _, ok, err := bound.AuthenticateToken(t.Context(), token); ok || err != nil {
		t.Errorf("a token of a Secret for the others: %v, %v", ok, err)
	}
	bound.Issuers = append(bound.Issuers, LegacyIssuer) // by an invalid configuration
	if _, ok, err := bound.AuthenticateToken(t.Context(), token); ok || err == nil {
		t.Errorf("a token without an end: %v, %v", ok, err)
	}
	if _, ok, err := (Legacy{Authenticator: bound}).AuthenticateToken(t.Context(), issue(t, keys, grant())); ok || err != nil {
		t.Errorf("a bound token for the others: %v, %v", ok, err)
	}
}
