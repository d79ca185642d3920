package quorum

import (
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Voter is the user who approves a request.
type Voter struct {
	Person
	// Impersonator is the name of the authenticated user if that is another one than
	// the acting Person. Webhooks do not receive it.
	Impersonator string
}

// Refusal is why an approval, a change or a certificate is refused, or why a vote does not
// count.
type Refusal struct {
	// Reason is one of this package's reasons, or a decision's reason.
	Reason string
	// Message explains the refusal to the user, without a policy's name.
	Message string
}

// Error implements error: signers return the refusal of a certificate.
func (r *Refusal) Error() string { return r.Message }

// MayVote returns nil if the voter's approval, at the time now, would count for a
// requirement that the votes do not meet. The API's authorization decides whether the
// voter may approve requests at all. A voter whose approval counts already gets
// ReasonAlreadyApproved.
func MayVote(reqs []Requirement, votes []Vote, voter Voter, requester Person, now time.Time) *Refusal {
	if voter.Impersonator != "" {
		return &Refusal{ReasonImpersonated, "your approval does not count: " + voter.Impersonator + " impersonates " + voter.Username + ", and people approve in their own name"}
	}
	vote := voteOf(voter.Person, now)
	with := append(slices.Clone(votes), vote)
	var objections []*Refusal
	var missing []v1alpha1.PeopleFrom
	for _, req := range reqs {
		before := newTally(req, votes, requester, now)
		if before.met() {
			continue
		}
		after := newTally(req, with, requester, now)
		if after.matching.have() > before.matching.have() {
			return nil
		}
		objections = append(objections, after.objections[len(votes)])
		missing = append(missing, before.matching.missing()...)
	}
	return refusal(objections, missing, hasCounted(reqs, votes, vote, requester, now))
}

// refusal returns why an approval does not help. The objections come from the
// requirements that are not met.
func refusal(objections []*Refusal, missing []v1alpha1.PeopleFrom, counted bool) *Refusal {
	if len(objections) == 0 {
		return &Refusal{ReasonNotNeeded, "enough people have approved"}
	}
	if counted {
		return &Refusal{ReasonAlreadyApproved, "you have approved already; " + needed(missing)}
	}
	for _, o := range objections {
		if o.Reason != ReasonNotAmongApprovers && o.Reason != ReasonAlreadyApproved {
			return &Refusal{o.Reason, "your approval does not count: " + o.Message}
		}
	}
	return &Refusal{ReasonNotAmongApprovers, notAmong(missing)}
}

// hasCounted reports whether one of the votes is of the same person as vote,
// and counts.
func hasCounted(reqs []Requirement, votes []Vote, vote Vote, requester Person, now time.Time) bool {
	return slices.ContainsFunc(reqs, func(req Requirement) bool {
		t := newTally(req, votes, requester, now)
		if t.override != nil && samePerson(req.distinctKey(), &vote, t.override) {
			return true
		}
		return slices.ContainsFunc(t.matching.seated(), func(v *voter) bool {
			return slices.ContainsFunc(v.votes, func(other *Vote) bool { return samePerson(req.distinctKey(), &vote, other) })
		})
	})
}
