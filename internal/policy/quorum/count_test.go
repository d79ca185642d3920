package quorum_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// vote is written "alice/pki,security", with options after spaces: "uid=1",
// "login=x" for an extra value, "ago=1h".
func vote(text string) quorum.Vote {
	fields := strings.Fields(text)
	name, groups, _ := strings.Cut(fields[0], "/")
	v := quorum.Vote{Username: name, Time: now}
	if groups != "" {
		v.Groups = strings.Split(groups, ",")
	}
	for _, field := range fields[1:] {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "uid":
			v.UID = value
		case "ago":
			age, err := time.ParseDuration(value)
			if err != nil {
				panic(err)
			}
			v.Time = now.Add(-age)
		default:
			if v.Extra == nil {
				v.Extra = map[string][]string{}
			}
			v.Extra[key] = append(v.Extra[key], value)
		}
	}
	return v
}

func votes(texts ...string) []quorum.Vote {
	var list []quorum.Vote
	for _, text := range texts {
		list = append(list, vote(text))
	}
	return list
}

func person(text string) quorum.Person {
	v := vote(text)
	return quorum.Person{Username: v.Username, UID: v.UID, Groups: v.Groups, Extra: v.Extra}
}

// from is written "2 of pki,security", with "@carol" for a user.
func from(text string) v1alpha1.PeopleFrom {
	count, names, _ := strings.Cut(text, " of ")
	f := v1alpha1.PeopleFrom{Count: int32(count[0] - '0')}
	for name := range strings.SplitSeq(names, ",") {
		if user, ok := strings.CutPrefix(name, "@"); ok {
			f.Users = append(f.Users, user)
		} else if name != "" {
			f.Groups = append(f.Groups, name)
		}
	}
	return f
}

func people(count int32, froms ...string) v1alpha1.PeopleRequirement {
	p := v1alpha1.PeopleRequirement{Count: count}
	for _, text := range froms {
		p.From = append(p.From, from(text))
	}
	return p
}

func requirement(count int32, froms ...string) quorum.Requirement {
	return quorum.Requirement{Policy: "p", People: people(count, froms...)}
}

func changed(r quorum.Requirement, change func(*v1alpha1.PeopleRequirement)) quorum.Requirement {
	change(&r.People)
	return r
}

var (
	officers = requirement(2, "1 of pki", "1 of security")
	byLogin  = changed(requirement(2), func(p *v1alpha1.PeopleRequirement) { p.DistinctBy = "Extra:login" })
	accounts = changed(requirement(2), func(p *v1alpha1.PeopleRequirement) { p.ServiceAccounts = true })
	briefly  = changed(requirement(2), func(p *v1alpha1.PeopleRequirement) { p.ValidFor = &metav1.Duration{Duration: time.Hour} })
)

func TestCount(t *testing.T) {
	tests := []struct {
		reason    string
		req       quorum.Requirement
		votes     []quorum.Vote
		requester string
		// want is empty if the requirement is met.
		want string
		// because has a line for each vote that does not count.
		because string
	}{
		{reason: "nobody", req: officers, want: "0 of 2 approvals: 1 more of pki and 1 more of security"},
		{reason: "one of each group", req: officers, votes: votes("alice/pki", "bob/security")},
		{reason: "one", req: officers, votes: votes("alice/pki"), want: "1 of 2 approvals: 1 more of security"},
		{reason: "two of one group", req: officers, votes: votes("alice/pki", "anna/pki"), want: "1 of 2 approvals: 1 more of security",
			because: "anna: no more approvals from the voter's groups are needed"},
		{reason: "somebody of neither group", req: officers, votes: votes("carol/dev"), want: "0 of 2 approvals: 1 more of pki and 1 more of security",
			because: "carol: no more approvals from the voter's groups are needed"},
		{reason: "one person in both groups", req: officers, votes: votes("alice/pki,security"), want: "1 of 2 approvals: 1 more of pki or security"},
		{reason: "who is in both makes room", req: officers, votes: votes("alice/pki,security", "bob/pki")},
		{reason: "the same in the other order", req: officers, votes: votes("bob/pki", "alice/pki,security")},
		{reason: "a chain of moves", req: requirement(3, "1 of a", "1 of b", "1 of c"), votes: votes("x/a,b", "y/b,c", "z/a")},
		{reason: "nobody can make room", req: requirement(3, "1 of a", "1 of b", "1 of c"), votes: votes("x/a,b", "y/a,b", "z/a,b"),
			want: "2 of 3 approvals: 1 more of c", because: "z: no more approvals from the voter's groups are needed"},
		{reason: "one fits everywhere, and is needed once", req: requirement(3, "2 of a", "1 of b"), votes: votes("x/a,b"),
			want: "1 of 3 approvals: 1 more of a and 1 more of a or b"},
		{reason: "by name", req: requirement(2, "1 of @carol", "1 of pki"), votes: votes("alice/pki"), want: "1 of 2 approvals: 1 more of user carol"},
		{reason: "anybody", req: requirement(2), votes: votes("alice"), want: "1 of 2 approvals: 1 more"},
		{reason: "anybody for what from leaves open", req: requirement(3, "1 of security"), votes: votes("alice", "bob"), want: "2 of 3 approvals: 1 more of security"},
		{reason: "from takes its own first", req: requirement(3, "1 of security"), votes: votes("alice/security"), want: "1 of 3 approvals: 2 more"},
		{reason: "from wants more than count", req: requirement(2, "2 of a", "1 of b"), votes: votes("x/a", "y/b"), want: "2 of 3 approvals: 1 more of a"},
		{reason: "an entry for anybody", req: requirement(2, "2 of "), votes: votes("x", "y")},
		{reason: "everybody who is authenticated", req: requirement(2, "2 of system:authenticated"), votes: votes("x/system:authenticated", "y/system:authenticated")},

		{reason: "the same person twice", req: requirement(2), votes: votes("alice ago=2h", "alice"), want: "1 of 2 approvals: 1 more",
			because: "alice: alice has approved already"},
		{reason: "the same person by UID", req: requirement(2), votes: votes("alice uid=1", "alicia uid=1"), want: "1 of 2 approvals: 1 more",
			because: "alicia: alice has approved already"},
		{reason: "the same name with another UID", req: requirement(2), votes: votes("alice uid=1", "alice uid=2"), want: "1 of 2 approvals: 1 more",
			because: "alice: alice has approved already"},
		{reason: "a person's votes with other groups", req: officers, votes: votes("alice/pki ago=1h", "alice/security"), want: "1 of 2 approvals: 1 more of pki or security",
			because: "alice: alice has approved already"},
		{reason: "the third shows that two are one", req: requirement(2), votes: votes("a uid=1", "b uid=2", "b uid=1"), want: "1 of 2 approvals: 1 more",
			because: "b: a has approved already; b: a has approved already"},
		{reason: "several logins", req: byLogin, votes: votes("alice login=1", "alice-admin login=1"), want: "1 of 2 approvals: 1 more",
			because: "alice-admin: alice has approved already"},
		{reason: "people with logins", req: byLogin, votes: votes("alice login=1", "bob login=2")},
		{reason: "one username with two logins", req: byLogin, votes: votes("alice login=1", "alice login=2"), want: "1 of 2 approvals: 1 more",
			because: "alice: alice has approved already"},
		{reason: "no login", req: byLogin, votes: votes("alice"), want: "0 of 2 approvals: 2 more",
			because: `alice: people are told apart by the extra value "login", and the user does not have exactly one`},
		{reason: "several values", req: byLogin, votes: votes("alice login=1 login=2"), want: "0 of 2 approvals: 2 more",
			because: `alice: people are told apart by the extra value "login", and the user does not have exactly one`},

		{reason: "the requester", req: requirement(2), votes: votes("alice", "bob"), requester: "bob", want: "1 of 2 approvals: 1 more",
			because: "bob: requesters cannot approve their own requests"},
		{reason: "the requester's UID", req: requirement(2), votes: votes("alice", "bob uid=7"), requester: "robert uid=7", want: "1 of 2 approvals: 1 more",
			because: "bob: requesters cannot approve their own requests"},
		{reason: "the requester's login", req: byLogin, votes: votes("alice login=1", "bob login=7"), requester: "robert login=6 login=7", want: "1 of 2 approvals: 1 more",
			because: "bob: requesters cannot approve their own requests"},
		{reason: "the login does not matter", req: requirement(2), votes: votes("alice login=1", "bob login=7"), requester: "robert login=7"},
		{reason: "no UID is no UID", req: requirement(2), votes: votes("alice", "bob"), requester: "carol"},

		{reason: "a service account", req: requirement(2), votes: votes("alice", "system:serviceaccount:a:b"), want: "1 of 2 approvals: 1 more",
			because: "system:serviceaccount:a:b: service accounts do not count as people"},
		{reason: "a service account by its group", req: requirement(2), votes: votes("alice", "b/system:serviceaccounts"), want: "1 of 2 approvals: 1 more",
			because: "b: service accounts do not count as people"},
		{reason: "service accounts count", req: accounts, votes: votes("alice", "system:serviceaccount:a:b")},
		{reason: "a node", req: accounts, votes: votes("alice", "system:node:n1"), want: "1 of 2 approvals: 1 more", because: "system:node:n1: a node is not a person"},
		{reason: "a node by its group", req: accounts, votes: votes("alice", "n/system:nodes"), want: "1 of 2 approvals: 1 more", because: "n: a node is not a person"},
		{reason: "anonymous", req: accounts, votes: votes("alice", "system:anonymous"), want: "1 of 2 approvals: 1 more",
			because: "system:anonymous: anonymous users cannot be told apart"},
		{reason: "unauthenticated", req: accounts, votes: votes("alice", "x/system:unauthenticated"), want: "1 of 2 approvals: 1 more",
			because: "x: anonymous users cannot be told apart"},
		{reason: "the server", req: accounts, votes: votes("alice", "system:apiserver"), want: "1 of 2 approvals: 1 more",
			because: "system:apiserver: a component of the control plane is not a person"},
		{reason: "an administrator is a person", req: requirement(2), votes: votes("alice", "admin/system:masters")},

		{reason: "just valid", req: requirement(2), votes: votes("alice ago=71h59m59s", "bob")},
		{reason: "no longer valid", req: requirement(2), votes: votes("alice ago=72h", "bob"), want: "1 of 2 approvals: 1 more", because: "alice: approvals count for 3d"},
		{reason: "valid for an hour", req: briefly, votes: votes("alice ago=1h", "bob ago=59m"), want: "1 of 2 approvals: 1 more", because: "alice: approvals count for 1h"},
		{reason: "again after the first has expired", req: briefly, votes: votes("alice ago=1h", "bob", "alice"), because: "alice: approvals count for 1h"},
		{reason: "groups are those of the vote that is valid", req: changed(officers, func(p *v1alpha1.PeopleRequirement) { p.ValidFor = briefly.People.ValidFor }),
			votes: votes("alice/pki ago=1h", "alice/dev", "bob/security"), want: "1 of 2 approvals: 1 more of pki",
			because: "alice: approvals count for 1h; alice: no more approvals from the voter's groups are needed"},
	}
	for _, tc := range tests {
		requester := quorum.Person{Username: "requester"}
		if tc.requester != "" {
			requester = person(tc.requester)
		}
		result := quorum.Count([]quorum.Requirement{tc.req}, tc.votes, requester, now)
		var because []string
		for _, v := range result.Votes {
			if v.Counts != (v.Because == "") {
				t.Errorf("%s: %+v", tc.reason, v)
			}
			if !v.Counts {
				because = append(because, v.User+": "+v.Because)
			}
		}
		if got := quorum.Progress(result.Requirements); got != tc.want || result.Met != (got == "") {
			t.Errorf("%s: met: %v, %q, want %q", tc.reason, result.Met, got, tc.want)
		}
		if got := strings.Join(because, "; "); got != tc.because {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.because)
		}
	}
}

func TestCountOfSeveralPolicies(t *testing.T) {
	a, b := requirement(2, "1 of pki"), requirement(3)
	a.Policy, b.Policy = "a", "b"
	got := quorum.Count([]quorum.Requirement{b, a}, votes("bob ago=1m", "alice/pki,dev ago=2m"), person("carol"), now)
	want := v1alpha1.PeopleDecision{
		Requirements: []v1alpha1.PeopleMissing{
			{Policy: "a", Count: 2, Have: 2},
			{Policy: "b", Count: 3, Have: 2, Missing: []v1alpha1.PeopleFrom{{Count: 1}}},
		},
		Votes: []v1alpha1.CountedVote{
			{User: "alice", Groups: []string{"pki"}, Time: metav1.NewTime(now.Add(-2 * time.Minute)), Counts: true},
			{User: "bob", Time: metav1.NewTime(now.Add(-time.Minute)), Counts: true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := quorum.Count(nil, votes("bob"), person("carol"), now); !got.Met || got.Votes[0].Counts {
		t.Errorf("no requirement: %+v", got)
	}
	got = quorum.Count([]quorum.Requirement{b, a}, nil, person("carol"), now)
	if text, want := quorum.Progress(got.Requirements), "certificate policy a: 0 of 2 approvals: 1 more of pki and 1 more; certificate policy b: 0 of 3 approvals: 3 more"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// A slow reference: is there an assignment of people to places, tried one by
// one?
func bruteForce(r quorum.Requirement, votes []quorum.Vote) bool {
	var places []v1alpha1.PeopleFrom
	for _, f := range r.People.From {
		for range f.Count {
			places = append(places, f)
		}
	}
	for len(places) < int(r.People.Count) {
		places = append(places, v1alpha1.PeopleFrom{})
	}
	used := map[string]bool{}
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(places) {
			return true
		}
		for _, v := range votes {
			fits := len(places[i].Groups) == 0
			for _, g := range v.Groups {
				fits = fits || strings.Contains(","+strings.Join(places[i].Groups, ",")+",", ","+g+",")
			}
			if used[v.Username] || !fits {
				continue
			}
			used[v.Username] = true
			if try(i + 1) {
				return true
			}
			used[v.Username] = false
		}
		return false
	}
	return try(0)
}

func TestCountAgreesWithTryingAllAssignments(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	groups := func() []string {
		var some []string
		for _, g := range []string{"a", "b", "c"} {
			if random.IntN(2) == 0 {
				some = append(some, g)
			}
		}
		return some
	}
	met := 0
	for i := range 5_000 {
		r := requirement(2 + random.Int32N(3))
		for range random.IntN(4) {
			r.People.From = append(r.People.From, v1alpha1.PeopleFrom{Groups: groups(), Count: 1 + random.Int32N(2)})
		}
		var cast []quorum.Vote
		for range random.IntN(7) {
			v := vote(string(rune('t' + random.IntN(6))))
			v.Groups = groups()
			// One vote a person: the reference does not join groups.
			if len(cast) == 0 || !contains(cast, v.Username) {
				cast = append(cast, v)
			}
		}
		before := quorum.Count([]quorum.Requirement{r}, cast, person("requester"), now)
		if before.Met != bruteForce(r, cast) {
			t.Fatalf("seed %d, case %d: %v for %+v of %+v", seed, i, before.Met, cast, r.People)
		}
		if before.Met {
			met++
		}
		random.Shuffle(len(cast), func(i, j int) { cast[i], cast[j] = cast[j], cast[i] })
		random.Shuffle(len(r.People.From), func(i, j int) { r.People.From[i], r.People.From[j] = r.People.From[j], r.People.From[i] })
		if diff := cmp.Diff(before, quorum.Count([]quorum.Requirement{r}, cast, person("requester"), now)); diff != "" {
			t.Fatalf("seed %d, case %d: another order: %s", seed, i, diff)
		}
		checkMissing(t, r, cast, before)
	}
	if met < 500 {
		t.Errorf("only %d met", met)
	}
}

func contains(votes []quorum.Vote, username string) bool {
	for _, v := range votes {
		if v.Username == username {
			return true
		}
	}
	return false
}

// checkMissing asserts that one more of the people who are missing helps, and
// nobody else.
func checkMissing(t *testing.T, r quorum.Requirement, votes []quorum.Vote, before v1alpha1.PeopleDecision) {
	t.Helper()
	reqs := []quorum.Requirement{r}
	for _, group := range []string{"a", "b", "c", "none"} {
		asked := false
		for _, m := range before.Requirements[0].Missing {
			asked = asked || len(m.Groups) == 0 || strings.Contains(strings.Join(m.Groups, ","), group)
		}
		after := quorum.Count(reqs, append(votes, vote("newcomer/"+group)), person("requester"), now)
		if helps := after.Requirements[0].Have > before.Requirements[0].Have; helps != asked {
			t.Fatalf("one more of %s: helps: %v, asked: %v: %+v", group, helps, asked, before)
		}
		voter := quorum.Voter{Person: person("newcomer/" + group)}
		if refusal := quorum.MayVote(reqs, votes, voter, person("requester"), now); (refusal == nil) != asked {
			t.Fatalf("one more of %s: %+v, asked: %v", group, refusal, asked)
		}
	}
}
