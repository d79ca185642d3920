package tokenrequest

import (
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
)

const (
	// kubeletSeconds is the lifetime that a kubelet requests if a pod's
	// manifest has none: this odd number distinguishes the two.
	kubeletSeconds = 60*60 + 7
	// extension is the lifetime that such a token gets.
	extension = 365 * 24 * time.Hour
)

// extends reports whether a kubelet requests the token for a program that may not support
// tokens that expire.
func (s *Storage) extends(request *authenticationv1.TokenRequest, binding serviceaccount.Binding) bool {
	ours := func(audience string) bool { return slices.Contains(s.opts.Audiences, audience) }
	return s.opts.ExtendExpiration && binding.Pod != nil &&
		*request.Spec.ExpirationSeconds == kubeletSeconds &&
		!slices.ContainsFunc(request.Spec.Audiences, func(audience string) bool { return !ours(audience) })
}

func (s *Storage) extended() time.Duration {
	if longest := s.opts.MaxExpiration; longest > 0 {
		return min(longest, extension)
	}
	return extension
}
