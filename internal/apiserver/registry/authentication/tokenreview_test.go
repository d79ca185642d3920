package authentication

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"
)

// newTokenReview serves reviews of one token, "good", whose user is ann.
func newTokenReview(t *testing.T, audiences ...string) rest.Creater {
	t.Helper()
	tokens := authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		wanted, _ := authenticator.AudiencesFrom(ctx)
		switch token {
		case "good":
			ann := &user.DefaultInfo{Name: "ann", UID: "7", Groups: []string{"staff"}, Extra: map[string][]string{"k": {"v"}}}
			return &authenticator.Response{User: ann, Audiences: wanted.Intersect(audiences)}, true, nil
		case "bad":
			return nil, false, errors.New("has expired")
		}
		return nil, false, nil
	})
	group, err := NewAPIGroup(Options{Tokens: tokens, Audiences: authenticator.Audiences{"api"}})
	if err != nil {
		t.Fatal(err)
	}
	return group.VersionedResourcesStorageMap["v1"]["tokenreviews"].(rest.Creater)
}

func TestTokenReview(t *testing.T) {
	ann := authenticationv1.UserInfo{Username: "ann", UID: "7", Groups: []string{"staff"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	tests := []struct {
		reason string
		spec   authenticationv1.TokenReviewSpec
		want   authenticationv1.TokenReviewStatus
	}{
		{"good", authenticationv1.TokenReviewSpec{Token: "good"},
			authenticationv1.TokenReviewStatus{Authenticated: true, User: ann, Audiences: []string{"api"}}},
		{"read from a file with a line end", authenticationv1.TokenReviewSpec{Token: "good\n"},
			authenticationv1.TokenReviewStatus{Authenticated: true, User: ann, Audiences: []string{"api"}}},
		{"for somebody else", authenticationv1.TokenReviewSpec{Token: "good", Audiences: []string{"vault", "db"}},
			authenticationv1.TokenReviewStatus{Authenticated: true, User: ann, Audiences: []string{"vault"}}},
		{"refused", authenticationv1.TokenReviewSpec{Token: "bad"}, authenticationv1.TokenReviewStatus{Error: "has expired"}},
		{"unknown", authenticationv1.TokenReviewSpec{Token: "what"}, authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			question := &authenticationv1.TokenReview{Spec: tt.spec, Status: authenticationv1.TokenReviewStatus{Authenticated: true}}
			answer, err := newTokenReview(t, "api", "vault").Create(t.Context(), question, nil, &metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, answer.(*authenticationv1.TokenReview).Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokenReviewRefusals(t *testing.T) {
	refusal := errors.New("refused")
	tests := []struct {
		reason    string
		audiences []string // the audiences that the authenticator returns
		question  runtime.Object
		admit     rest.ValidateObjectFunc
		want      func(error) bool
	}{
		{"no token", []string{"api"}, &authenticationv1.TokenReview{}, nil, apierrors.IsBadRequest},
		{"another kind", []string{"api"}, &authenticationv1.SelfSubjectReview{}, nil, apierrors.IsBadRequest},
		{"an authenticator that does not look at audiences", nil, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: "good"},
		}, nil, apierrors.IsInternalError},
		{"admission", []string{"api"}, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "good"}},
			func(context.Context, runtime.Object) error { return refusal },
			func(err error) bool { return errors.Is(err, refusal) }},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := newTokenReview(t, tt.audiences...).Create(t.Context(), tt.question, tt.admit, &metav1.CreateOptions{})
			if !tt.want(err) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
