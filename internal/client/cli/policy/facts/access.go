package facts

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// Access is a policies.AccessFunc that answers from the SubjectAccessReviews among the
// objects. A review without user and groups applies to all users.
func (s *Store) Access(_ context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
	asked := policies.AccessReview(who, what)
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
	return false, policies.ErrNotKnown
}
