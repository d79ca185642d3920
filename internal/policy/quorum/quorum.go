// Package quorum decides whether enough people have approved a request.
package quorum

import (
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Vote is one person's approval of a request.
type Vote struct {
	Username, UID string
	// Groups are those that the API server had authenticated at the vote, Extra
	// the extra values.
	Groups []string
	Extra  map[string][]string
	Time   time.Time
}

// Requirement is what one policy demands.
type Requirement struct {
	Policy string
	People v1alpha1.PeopleRequirement
}
