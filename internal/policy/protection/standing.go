package protection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/policy/quorum"
)

// Demand describes the people that a change of the policy needs, such as "2 people: 1
// of pki and 1 of security".
func (p Policy) Demand() string { return quorum.Demand(p.requirement().People) }

// Standing describes the proposals for an object and the people who are missing. It is
// empty without proposals that count.
func Standing(kind Kind, o *Object, protected []Policy, open OpenFunc, now time.Time) string {
	counting := proposals(kind, o, open, now)
	if own, err := ownPolicy(o); kind == Policies && err == nil && own != nil {
		protected = append(slices.DeleteFunc(slices.Clone(protected), func(p Policy) bool { return p.Name == o.Name }), *own)
	}
	var texts []string
	var told []string
	for _, p := range counting {
		if !slices.Contains(told, p.Wanted) {
			told = append(told, p.Wanted)
			texts = append(texts, standing(wanting(counting, p.Wanted), protected, now))
		}
	}
	return strings.Join(texts, "; ")
}

// standing describes the people who have proposed one specification, and the missing people.
func standing(same []proposal, protected []Policy, now time.Time) string {
	var who []string
	until := same[0].Expires
	for _, p := range same {
		who = append(who, p.User)
		if p.Expires.Before(until) {
			until = p.Expires
		}
	}
	var reqs []quorum.Requirement
	for _, p := range protected {
		if slices.ContainsFunc(same[0].Policies, func(r quorum.RecordedPolicy) bool { return r.Name == p.Name }) {
			reqs = append(reqs, p.requirement())
		}
	}
	what := "to put it into force"
	if len(same[0].Changes) > 0 {
		what = "to change " + strings.Join(same[0].Changes, ", ")
	}
	result := quorum.Count(reqs, votesOf(same), noRequester, now)
	missing := quorum.Progress(result.Requirements)
	if result.Met {
		missing = "enough people have written it; the next write applies it"
	}
	return fmt.Sprintf("proposed by %s until %s, %s: %s", quorum.Enumerate(who), until.UTC().Format(time.RFC3339), what, missing)
}
