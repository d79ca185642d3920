// Package quorum decides whether enough people have approved a request.
//
// An approval that does not complete what the policies require becomes a vote: a
// condition of the request with a sealed record of the voter, the request and the time.
// Everything here follows from its arguments: the keys, the clock and the policies come
// from the callers.
package quorum

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// Person is a user as the API server has authenticated it.
type Person = request.Requester

// Vote is one person's approval of a request.
type Vote struct {
	Username, UID string
	// Groups and Extra are the groups and extra values that the API server had
	// authenticated at the vote.
	Groups []string
	Extra  map[string][]string
	Time   time.Time
	// Override is nil unless the approval replaces the approvals of others.
	Override *Override
	// CarriedFrom is the earlier AcmeOrder whose request was approved, as
	// NAMESPACE/NAME; empty if the approval is of the request itself.
	CarriedFrom string
}

// Logged returns the vote in the form recorded with decisions.
func (v Vote) Logged() v1alpha1.LoggedVote {
	logged := v1alpha1.LoggedVote{Username: v.Username, UID: v.UID, Groups: v.Groups, Extra: v.Extra, Time: metav1.NewMicroTime(v.Time), CarriedFrom: v.CarriedFrom}
	if v.Override != nil {
		logged.Override = new(v1alpha1.LoggedOverride(*v.Override))
	}
	return logged
}

// FromLogged returns the vote from its recorded form.
func FromLogged(v v1alpha1.LoggedVote) Vote {
	vote := Vote{Username: v.Username, UID: v.UID, Groups: v.Groups, Extra: v.Extra, Time: v.Time.Time, CarriedFrom: v.CarriedFrom}
	if v.Override != nil {
		vote.Override = new(Override(*v.Override))
	}
	return vote
}

// Requirement lists the people that one policy demands.
type Requirement struct {
	Policy string
	// Digest is the policy's digest. It is set only in records of votes.
	Digest string
	People v1alpha1.PeopleRequirement
}

// carries reports whether approvals of earlier orders of ACME clients count.
func (r Requirement) carries() bool { return r.People.CarryOver == v1alpha1.CarryOverAllowed }

// DefaultValidFor is how long an approval counts if the policy sets no validFor.
const DefaultValidFor = 72 * time.Hour

// voteOf returns the approval of a person at a time.
func voteOf(p Person, at time.Time) Vote {
	return Vote{Username: p.Username, UID: p.UID, Groups: p.Groups, Extra: p.Extra, Time: at}
}

// ValidFor returns how long an approval counts for r.
func (r Requirement) ValidFor() time.Duration {
	if r.People.ValidFor == nil {
		return DefaultValidFor
	}
	return r.People.ValidFor.Duration
}
