package authentication

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
)

var (
	_ rest.Creater              = tokenReview{}
	_ rest.Scoper               = tokenReview{}
	_ rest.SingularNameProvider = tokenReview{}
	_ rest.Storage              = tokenReview{}
)

// tokenReview returns the users of bearer tokens to other servers. Nothing is
// stored.
type tokenReview struct {
	tokens    authenticator.Token
	audiences authenticator.Audiences
}

func (tokenReview) New() runtime.Object { return &authenticationv1.TokenReview{} }

func (tokenReview) Destroy() {}

func (tokenReview) NamespaceScoped() bool { return false }

func (tokenReview) GetSingularName() string { return "tokenreview" }

// Create returns the user of the token, in a dry run too: a review changes
// nothing.
func (r tokenReview) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authenticationv1.TokenReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenReview: %T", obj))
	}
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if admit != nil {
		if err := admit(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	status, err := r.answer(ctx, review.Spec)
	if err != nil {
		return nil, err
	}
	review.Status = status
	return review, nil
}

func (r tokenReview) answer(ctx context.Context, spec authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
	wanted := authenticator.Audiences(spec.Audiences)
	if len(wanted) == 0 {
		wanted = r.audiences
	}
	// The requesting user's audiences have nothing to do with the token's.
	answer, ok, err := r.tokens.AuthenticateToken(authenticator.WithAudiences(ctx, wanted), strings.TrimSpace(spec.Token))
	switch {
	case err != nil:
		return authenticationv1.TokenReviewStatus{Error: err.Error()}, nil
	case !ok:
		return authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}, nil
	case len(wanted.Intersect(answer.Audiences)) == 0:
		// The requesting server would accept the token as one that was meant
		// for it.
		return authenticationv1.TokenReviewStatus{}, apierrors.NewInternalError(
			fmt.Errorf("token was found valid for audiences %q, not for %q", answer.Audiences, wanted))
	}
	return authenticationv1.TokenReviewStatus{
		Authenticated: true,
		User:          infoOf(answer.User),
		Audiences:     answer.Audiences,
	}, nil
}
