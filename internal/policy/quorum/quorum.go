// Package quorum decides whether enough people have approved a request.
//
// An approval that does not complete what the policies require becomes a vote:
// a condition of the request with a sealed record of who approved what, and
// when. Everything here follows from its arguments: the keys, the clock and the
// policies come from the callers.
package quorum

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// Person is a user as the API server has authenticated it.
type Person = request.Requester

// Vote is one person's approval of a request.
type Vote struct {
	Username, UID string
	// Groups are those that the API server had authenticated at the vote, Extra
	// the extra values.
	Groups []string
	Extra  map[string][]string
	Time   time.Time
	// Override is nil unless the approval is one in the place of others.
	Override *Override
}

// Requirement is what one policy demands.
type Requirement struct {
	Policy string
	// Digest is that of the policy. Only records of votes have it.
	Digest string
	People v1alpha1.PeopleRequirement
}

// DefaultValidFor is how long an approval counts if the policy does not say.
const DefaultValidFor = 72 * time.Hour

// voteOf returns the approval of a person at a time.
func voteOf(p Person, at time.Time) Vote {
	return Vote{Username: p.Username, UID: p.UID, Groups: p.Groups, Extra: p.Extra, Time: at}
}

// validFor returns how long an approval counts for r.
func (r Requirement) validFor() time.Duration {
	if r.People.ValidFor == nil {
		return DefaultValidFor
	}
	return r.People.ValidFor.Duration
}
