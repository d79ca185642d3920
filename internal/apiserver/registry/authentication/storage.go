// Package authentication serves authentication.k8s.io: reviews of the identity
// of users.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// Options has the parts and settings of the API group.
type Options struct {
	// Tokens answers the token review.
	Tokens authenticator.Token
	// Audiences are those for which a token is reviewed if the review has none.
	Audiences authenticator.Audiences
	// Clock is the source of the timestamps. If nil, it is the system's.
	Clock clock.PassiveClock
}

// NewAPIGroup returns the reviews.
func NewAPIGroup(opts Options) (genericapiserver.APIGroupInfo, error) {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	group := kind.NewGroup(authenticationv1.GroupName)
	group.VersionedResourcesStorageMap[authenticationv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"selfsubjectreviews": selfSubjectReview{clock: opts.Clock},
		"tokenreviews":       tokenReview{tokens: opts.Tokens, audiences: opts.Audiences},
	}
	return group, nil
}
