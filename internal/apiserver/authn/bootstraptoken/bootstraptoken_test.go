package bootstraptoken

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
)

const testToken = "abcdef.0123456789abcdef"

var testNow = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func newSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-authentication": []byte("true"),
		},
	}
}

func TestAuthenticateToken(t *testing.T) {
	tests := []struct {
		reason string
		change func(*corev1.Secret)
		token  string // testToken if not set
		want   []string
	}{
		{reason: "as it is made", want: []string{"system:bootstrappers"}},
		{reason: "more groups", change: func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:b,system:bootstrappers:a")
		}, want: []string{"system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"}},
		{reason: "not over yet", change: func(s *corev1.Secret) { s.Data["expiration"] = []byte("2030-05-17T12:00:01Z") }, want: []string{"system:bootstrappers"}},

		{reason: "expired", change: func(s *corev1.Secret) { s.Data["expiration"] = []byte("2030-05-17T12:00:00Z") }},
		{reason: "an end that nobody can read", change: func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") }},
		{reason: "wrong secret part", token: "abcdef.0123456789abcdee"},
		{reason: "another name", change: func(s *corev1.Secret) { s.Data["token-id"] = []byte("fedcba") }},
		{reason: "without a secret part", change: func(s *corev1.Secret) { delete(s.Data, "token-secret") }},
		{reason: "no token at all", change: func(s *corev1.Secret) { s.Data = nil }},
		{reason: "another type", change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
		{reason: "for signing only", change: func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }},
		{reason: "usage is not the word true", change: func(s *corev1.Secret) { s.Data["usage-bootstrap-authentication"] = []byte("True") }},
		{reason: "a group that is not for bootstrapping", change: func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }},
		{reason: "for a node that nobody can have", change: func(s *corev1.Secret) { s.Data["node-name"] = nil }},
		{reason: "being deleted", change: func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: testNow} }},
		{reason: "unknown", token: "zzzzzz.0123456789abcdef"},
		{reason: "not of this form", token: "abcdef.0123456789ABCDEF"},
		{reason: "a name with a path", token: "../../.0123456789abcdef"},
		{reason: "nothing", token: "."},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			secret := newSecret()
			if tt.change != nil {
				tt.change(secret)
			}
			who := Authenticator{Now: func() time.Time { return testNow }, Get: func(_ context.Context, name string) (*corev1.Secret, error) {
				if name == secret.Name {
					return secret, nil
				}
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
			}}
			token := tt.token
			if token == "" {
				token = testToken
			}
			answer, ok, err := who.AuthenticateToken(t.Context(), token)
			if err != nil {
				t.Fatalf("a token that does not hold is an error: %v", err)
			}
			if ok != (tt.want != nil) {
				t.Fatalf("honoured: %v", ok)
			}
			if !ok {
				return
			}
			want := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: tt.want}
			if diff := cmp.Diff(user.Info(want), answer.User); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnreadableSecrets(t *testing.T) {
	broken := errors.New("broken")
	who := Authenticator{Now: time.Now, Get: func(context.Context, string) (*corev1.Secret, error) { return nil, broken }}
	if _, ok, err := who.AuthenticateToken(t.Context(), testToken); ok || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", ok, err)
	}
}

// The name of the only node that may join is known of the user.
func TestNodeOfToken(t *testing.T) {
	secret := newSecret()
	secret.Data["node-name"] = []byte("edge-1.example.com")
	who := Authenticator{Now: func() time.Time { return testNow }, Get: func(context.Context, string) (*corev1.Secret, error) { return secret, nil }}
	answer, ok, err := who.AuthenticateToken(t.Context(), testToken)
	if err != nil || !ok {
		t.Fatalf("accepted: %v, %v", ok, err)
	}
	want := map[string][]string{"authentication.certplane.dev/bootstrap-node": {"edge-1.example.com"}}
	if diff := cmp.Diff(want, answer.User.GetExtra()); diff != "" {
		t.Errorf("extra (-want +got):\n%s", diff)
	}
}

// A token that the watch has not shown yet is read from the store, but clients without
// credentials can only cause some reads a second.
func TestNewToken(t *testing.T) {
	client := fake.NewClientset(newSecret())
	who := Authenticator{Now: func() time.Time { return testNow }, Get: NewSecrets(client).Get}
	if _, ok, err := who.AuthenticateToken(t.Context(), testToken); !ok || err != nil {
		t.Errorf("a new token: %t, %v", ok, err)
	}
	for range 10 * readsPerSecond {
		if _, ok, err := who.AuthenticateToken(t.Context(), "abcdeg.0123456789abcdef"); ok || err != nil {
			t.Fatalf("an unknown token: %t, %v", ok, err)
		}
	}
	if reads := len(client.Actions()); reads > 2*readsPerSecond {
		t.Errorf("%d reads of the store", reads)
	}
}
