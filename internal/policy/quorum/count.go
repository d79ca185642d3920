package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Count counts the votes for each requirement. A person counts at most once for
// a requirement, and there for one entry of from; the requirements of several
// policies are independent of each other. An approval counts until its time and
// validFor have passed. The result does not depend on the order of requirements, votes,
// groups and users: requirements are sorted by policy, votes by time and username. Without
// requirements, they are met.
func Count(reqs []Requirement, votes []Vote, requester Person, now time.Time) v1alpha1.PeopleDecision {
	reqs, votes = slices.Clone(reqs), slices.Clone(votes)
	slices.SortStableFunc(reqs, func(a, b Requirement) int { return cmp.Compare(a.Policy, b.Policy) })
	slices.SortFunc(votes, compareVotes)
	result := v1alpha1.PeopleDecision{Met: true}
	objections := make([]*Refusal, len(votes))
	for i, req := range reqs {
		t := newTally(req, votes, requester, now)
		missing := t.missing()
		result.Met = result.Met && len(missing.Missing) == 0
		result.Requirements = append(result.Requirements, missing)
		for j, o := range t.objections {
			// A vote that counts for one requirement counts. Of several objections, the
			// first requirement's is reported.
			if i == 0 || o == nil {
				objections[j] = o
			}
		}
	}
	for i := range votes {
		result.Votes = append(result.Votes, counted(&votes[i], reqs, objections[i]))
	}
	return result
}

// compareVotes orders votes by time, then by all other fields.
func compareVotes(a, b Vote) int {
	return cmp.Or(
		a.Time.Compare(b.Time),
		cmp.Compare(a.Username, b.Username),
		cmp.Compare(a.UID, b.UID),
		slices.Compare(sortedSet(a.Groups), sortedSet(b.Groups)),
		// fmt prints maps sorted by key.
		cmp.Compare(fmt.Sprint(a.Extra), fmt.Sprint(b.Extra)),
		cmp.Compare(a.Override.text(), b.Override.text()),
		cmp.Compare(a.CarriedFrom, b.CarriedFrom),
	)
}

// counted returns the account of a vote, with only the groups that the requirements
// name.
func counted(v *Vote, reqs []Requirement, objection *Refusal) v1alpha1.CountedVote {
	c := v1alpha1.CountedVote{
		User: v.Username, Groups: named(v.Groups, groupsOf(reqs)), Time: metav1.NewTime(v.Time),
		Counts: objection == nil && len(reqs) > 0, CarriedFrom: v.CarriedFrom,
	}
	if objection != nil {
		c.Because = objection.Message
	}
	if v.Override != nil {
		c.Override = v.Override.Why
	}
	return c
}

// groupsOf returns the groups that requirements name.
func groupsOf(reqs []Requirement) []string {
	var groups []string
	for _, req := range reqs {
		for _, from := range req.People.From {
			groups = append(groups, from.Groups...)
		}
	}
	return groups
}

// named returns the groups that are also in names, sorted.
func named(groups, names []string) []string {
	kept := slices.DeleteFunc(sortedSet(groups), func(group string) bool { return !slices.Contains(names, group) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// tally is the count of votes for one requirement.
type tally struct {
	Requirement
	matching *matching
	// objections holds, for each vote, why it does not count.
	objections []*Refusal
	// override is the first vote that meets the requirement alone; nil if none
	// does.
	override *Vote
}

// met reports whether enough people have voted.
func (t *tally) met() bool { return t.override != nil || t.matching.have() == t.matching.wanted() }

// newTally counts votes, which are sorted. Earlier votes take precedence: voters with a
// place keep one.
func newTally(req Requirement, votes []Vote, requester Person, now time.Time) tally {
	t := tally{Requirement: req, matching: newMatching(&req.People), objections: make([]*Refusal, len(votes))}
	var voters []*voter
	for i := range votes {
		if t.objections[i] = req.objection(&votes[i], requester, now); t.objections[i] == nil {
			voters = join(voters, &votes[i], req.distinctKey())
		}
	}
	for _, v := range voters {
		var objection *Refusal
		if !t.matching.seat(v) {
			objection = &Refusal{ReasonNotAmongApprovers, "no more approvals from the voter's groups are needed"}
		}
		for i := range votes {
			switch at := slices.Index(v.votes, &votes[i]); {
			case at == 0:
				t.objections[i] = objection
			case at > 0:
				t.objections[i] = &Refusal{ReasonAlreadyApproved, fmt.Sprintf("%s has approved already", v.votes[0].Username)}
			}
		}
	}
	t.countOverrides(votes, requester, now)
	return t
}

// countOverrides counts the votes that meet the requirement alone. The voter need not
// be one of the required people.
func (t *tally) countOverrides(votes []Vote, requester Person, now time.Time) {
	for i := range votes {
		if !t.overriddenBy(&votes[i]) || t.Requirement.objection(&votes[i], requester, now) != nil {
			continue
		}
		if t.objections[i] = nil; t.override == nil {
			t.override = &votes[i]
		}
	}
}

// join adds a vote to the votes of the same person, and merges voters that the vote
// shows to be one person.
func join(voters []*voter, vote *Vote, key string) []*voter {
	var same *voter
	kept := voters[:0]
	for _, v := range voters {
		switch {
		case !slices.ContainsFunc(v.votes, func(other *Vote) bool { return samePerson(key, vote, other) }):
			kept = append(kept, v)
		case same == nil:
			same = v
			kept = append(kept, v)
		default:
			same.votes = append(same.votes, v.votes...)
		}
	}
	if same == nil {
		return append(kept, &voter{votes: []*Vote{vote}})
	}
	same.votes = append(same.votes, vote)
	return kept
}

// missing returns the people who are still needed.
func (t *tally) missing() v1alpha1.PeopleMissing {
	m := v1alpha1.PeopleMissing{Policy: t.Policy, Count: int32(t.matching.wanted()), Have: int32(t.matching.have())}
	if t.override != nil {
		m.OverriddenBy = t.override.Username
		return m
	}
	m.Missing = t.matching.missing()
	return m
}
