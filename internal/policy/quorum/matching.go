package quorum

import (
	"cmp"
	"slices"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// place is a number of people who fit one condition. It has as many as are
// wanted, or fewer.
type place struct {
	// groups and users are sorted. If both are empty, anybody fits.
	groups, users []string
	wanted        int
	taken         []*voter
}

// voter is a person, with all its votes that can count.
type voter struct {
	votes []*Vote
}

// matching gives each voter at most one place, and as many voters as possible
// one.
type matching struct {
	places []*place
}

// newMatching returns the places of a requirement, in an order that does not depend on
// the order of its lists. If from demands fewer people than count, anybody takes the
// remaining places.
func newMatching(people *v1alpha1.PeopleRequirement) *matching {
	m := &matching{}
	for _, from := range people.From {
		m.add(from.Groups, from.Users, int(from.Count))
	}
	slices.SortFunc(m.places, func(a, b *place) int {
		return cmp.Or(slices.Compare(a.groups, b.groups), slices.Compare(a.users, b.users), cmp.Compare(a.wanted, b.wanted))
	})
	m.add(nil, nil, int(people.Count)-m.wanted())
	return m
}

func (m *matching) add(groups, users []string, wanted int) {
	if wanted > 0 {
		m.places = append(m.places, &place{groups: sortedSet(groups), users: sortedSet(users), wanted: wanted})
	}
}

func sortedSet(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// wanted returns the number of people that m has places for.
func (m *matching) wanted() int {
	n := 0
	for _, p := range m.places {
		n += p.wanted
	}
	return n
}

// seated returns the people who have a place.
func (m *matching) seated() []*voter {
	var voters []*voter
	for _, p := range m.places {
		voters = append(voters, p.taken...)
	}
	return voters
}

// have returns the number of people who have a place.
func (m *matching) have() int { return len(m.seated()) }

// fits reports whether v is one of the people that p is for.
func (p *place) fits(v *voter) bool {
	if len(p.groups) == 0 && len(p.users) == 0 {
		return true
	}
	return slices.ContainsFunc(v.votes, func(vote *Vote) bool {
		return slices.Contains(p.users, vote.Username) ||
			slices.ContainsFunc(vote.Groups, func(group string) bool { return slices.Contains(p.groups, group) })
	})
}

// seat gives v a place, for which others may move. It reports whether it could. Voters
// with a place never lose it, so one call for each voter finds a maximum matching
// (Berge 1957).
func (m *matching) seat(v *voter) bool {
	return m.move(v, map[*place]bool{})
}

func (m *matching) move(v *voter, tried map[*place]bool) bool {
	for _, p := range m.places {
		if tried[p] || !p.fits(v) {
			continue
		}
		tried[p] = true
		if len(p.taken) < p.wanted {
			p.taken = append(p.taken, v)
			return true
		}
		for i, other := range p.taken {
			if m.move(other, tried) {
				p.taken[i] = v
				return true
			}
		}
	}
	return false
}

// missing returns the people who are still needed. An entry names all who would help:
// also those to whom another voter would leave a place by moving to the free one.
func (m *matching) missing() []v1alpha1.PeopleFrom {
	var missing []v1alpha1.PeopleFrom
	for _, p := range m.places {
		if free := p.wanted - len(p.taken); free > 0 {
			missing = addMissing(missing, m.helpers(p), free)
		}
	}
	return missing
}

// addMissing adds count people to the entry for the same people, if there is
// one.
func addMissing(missing []v1alpha1.PeopleFrom, from v1alpha1.PeopleFrom, count int) []v1alpha1.PeopleFrom {
	for i := range missing {
		if slices.Equal(missing[i].Groups, from.Groups) && slices.Equal(missing[i].Users, from.Users) {
			missing[i].Count += int32(count)
			return missing
		}
	}
	from.Count = int32(count)
	return append(missing, from)
}

// helpers returns the people of whom one more fills a free place of p: those
// whom p is for, and those for the places that others can leave for p.
func (m *matching) helpers(p *place) v1alpha1.PeopleFrom {
	reached := []*place{p}
	for i := 0; i < len(reached); i++ {
		for _, other := range m.places {
			if !slices.Contains(reached, other) && slices.ContainsFunc(other.taken, reached[i].fits) {
				reached = append(reached, other)
			}
		}
	}
	var from v1alpha1.PeopleFrom
	for _, r := range reached {
		if len(r.groups) == 0 && len(r.users) == 0 {
			return v1alpha1.PeopleFrom{} // anybody
		}
		from.Groups = append(from.Groups, r.groups...)
		from.Users = append(from.Users, r.users...)
	}
	from.Groups, from.Users = sortedSet(from.Groups), sortedSet(from.Users)
	return from
}
