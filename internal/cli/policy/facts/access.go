package facts

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// AccessFunc reports whether a user may do something. With an error, it is not
// known.
type AccessFunc func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error)

// ErrNotKnown means that nothing says whether a user may do something.
var ErrNotKnown = errors.New("is not known")

// Review returns the question whether a user may do something.
func Review(who request.Requester, what certpolicy.Access) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: what.Verb, Group: what.Group, Resource: what.Resource, Subresource: what.Subresource, Name: what.Name, Namespace: what.Namespace,
		},
	}
	for key, values := range who.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	return spec
}

// Reviews returns an AccessFunc that asks an API.
func Reviews(api client.Writer) AccessFunc {
	return func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: Review(who, what)}
		if err := api.Create(ctx, review); err != nil {
			return false, fmt.Errorf("asking whether %s may %s: %w", who.Username, what, err)
		}
		return review.Status.Allowed && !review.Status.Denied, nil
	}
}

// Access is an AccessFunc: the SubjectAccessReviews among the objects have the
// answers. One without user and groups is about everybody.
func (s *Store) Access(_ context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
	asked := Review(who, what)
	for i := range s.reviews {
		spec := &s.reviews[i].Spec
		about := spec.ResourceAttributes
		if about == nil || (spec.User != "" && spec.User != asked.User) || !sets.New(asked.Groups...).HasAll(spec.Groups...) {
			continue
		}
		given := certpolicy.Access{
			Verb: about.Verb, Group: about.Group, Resource: about.Resource, Subresource: about.Subresource, Name: about.Name, Namespace: about.Namespace,
		}
		if given == what {
			return s.reviews[i].Status.Allowed && !s.reviews[i].Status.Denied, nil
		}
	}
	return false, ErrNotKnown
}
