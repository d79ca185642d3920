package certpolicy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// state is what one policy says about a request.
type state string

const (
	none     state = "none" // the policy is not about the request
	holds    state = "holds"
	people   state = "holds and wants people"
	leave    state = "holds and leaves it"
	violated state = "violated"
	excepted state = "violated, with an exception"
	open     state = "open"
	opening  state = "perhaps about the request"
)

// situation is what the policies of a decision say.
type situation struct {
	limit        state
	allow, other state
	rest         state
	// voted: two people have approved.
	voted, unreadable bool
}

// row is a row of the table of outcomes: the first whose condition is true says
// what follows.
type row struct {
	says    string
	when    func(situation) bool
	outcome func(situation) v1alpha1.DecisionOutcome
}

func always(outcome v1alpha1.DecisionOutcome) func(situation) v1alpha1.DecisionOutcome {
	return func(situation) v1alpha1.DecisionOutcome { return outcome }
}

func (s situation) allows(which ...state) bool {
	return slices.Contains(which, s.allow) || slices.Contains(which, s.other)
}

// counting returns what follows where no Limit objects: enough people, or those
// that are missing.
func (s situation) counting(wanted bool, otherwise v1alpha1.DecisionOutcome) v1alpha1.DecisionOutcome {
	switch {
	case wanted && s.voted:
		return v1alpha1.OutcomeApprove
	case wanted:
		return v1alpha1.OutcomeNeedPeople
	}
	return otherwise
}

// table is the table of outcomes.
var table = []row{
	{"nothing is about the request", func(s situation) bool { return s == situation{none, none, none, none, s.voted, s.unreadable} }, always(v1alpha1.OutcomeLeave)},
	{"it cannot be read", func(s situation) bool { return s.unreadable }, always(v1alpha1.OutcomeDeny)},
	{"a Limit is violated", func(s situation) bool { return s.limit == violated }, always(v1alpha1.OutcomeDeny)},
	{"a Limit is open", func(s situation) bool { return s.limit == open || s.limit == opening }, always(v1alpha1.OutcomeWait)},
	{"an Allow holds, automatically", func(s situation) bool { return s.allows(holds, excepted) },
		func(s situation) v1alpha1.DecisionOutcome {
			return s.counting(s.limit == people, v1alpha1.OutcomeApprove)
		}},
	{"an Allow holds, with people", func(s situation) bool { return s.allows(people) },
		func(s situation) v1alpha1.DecisionOutcome { return s.counting(true, "") }},
	{"an Allow holds, and leaves it", func(s situation) bool { return s.allows(leave) },
		func(s situation) v1alpha1.DecisionOutcome {
			return s.counting(s.limit == people, v1alpha1.OutcomeLeave)
		}},
	{"an Allow is open, and none holds", func(s situation) bool { return s.allows(open, opening) }, always(v1alpha1.OutcomeWait)},
	{"all Allows are violated", func(s situation) bool { return s.allows(violated) }, always(v1alpha1.OutcomeDeny)},
	{"a DenyRest is perhaps about it", func(s situation) bool { return s.rest == opening }, always(v1alpha1.OutcomeWait)},
	{"a DenyRest", func(s situation) bool { return s.rest == holds }, always(v1alpha1.OutcomeDeny)},
	{"the people are the grant", func(s situation) bool { return s.limit == people },
		func(s situation) v1alpha1.DecisionOutcome { return s.counting(true, "") }},
	{"nobody decides", func(situation) bool { return true }, always(v1alpha1.OutcomeLeave)},
}

// expected returns the outcome by the table.
func expected(s situation) (v1alpha1.DecisionOutcome, string) {
	for _, r := range table {
		if r.when(s) {
			return r.outcome(s), r.says
		}
	}
	panic("the table has no row")
}

// TestOutcomes: what follows from every combination of what policies say.
func TestOutcomes(t *testing.T) {
	requests := map[bool]certpolicy.Input{
		false: decided(csrs, "Direct").input(t),
		true:  decided(csrs, "Direct").but(func(a *asked) { a.pem = func(data []byte) []byte { return append(data, data...) } }).input(t),
	}
	seen := map[string]int{}
	for _, limit := range []state{none, holds, people, violated, excepted, open, opening} {
		for _, allow := range []state{none, holds, people, leave, violated, excepted, open, opening} {
			for _, other := range []state{none, holds, people, leave, violated, open} {
				for _, rest := range []state{none, holds, opening} {
					s := situation{limit: limit, allow: allow, other: other, rest: rest}
					policies := s.set(t, "CertificateSigningRequest", "Direct", "Enforce")
					for _, s.voted = range []bool{false, true} {
						for _, s.unreadable = range []bool{false, true} {
							s.check(t, policies, requests[s.unreadable], seen)
						}
					}
				}
			}
		}
	}
	for _, r := range table {
		if seen[r.says] == 0 {
			t.Errorf("no situation is for the row %q", r.says)
		}
	}
}

func (s situation) check(t *testing.T, policies *certpolicy.Set, in certpolicy.Input, seen map[string]int) {
	t.Helper()
	if s.voted {
		in.Votes = []quorum.Vote{{Username: "bob", Time: now}, {Username: "carol", Time: now}}
	}
	want, row := expected(s)
	seen[row]++
	d := policies.Decide(in)
	if d.Outcome != want {
		t.Errorf("%+v: %s, want %s: %s", s, brief(d), want, row)
	}
	refused := want != v1alpha1.OutcomeApprove && want != v1alpha1.OutcomeLeave
	if refused != (d.Reason != "") || refused != (d.Message != "") {
		t.Errorf("%+v: %s with the reason %q and the message %q", s, want, d.Reason, d.Message)
	}
	if want == v1alpha1.OutcomeDeny && (d.Policy == nil || d.Policy.Name != d.Violations[firstEffective(d)].Policy || d.Reason != d.Violations[firstEffective(d)].Reason) {
		t.Errorf("%+v: denied by %v for %s, and the violations are %s", s, d.Policy, d.Reason, brief(d))
	}
	if want == v1alpha1.OutcomeNeedPeople && strings.Count(d.Message, "certificate policy ") != len(d.People.Requirements) {
		t.Errorf("%+v: the message is %q", s, d.Message)
	}
}

// firstEffective returns the index of the first violation that no exception
// covers.
func firstEffective(d *v1alpha1.PolicyDecision) int {
	return slices.IndexFunc(d.Violations, func(v v1alpha1.PolicyViolation) bool { return v.Exception == "" })
}

// decided is a request of a service account, so that requests of all kinds have
// a namespace, which the policies do not know yet.
func decided(kind v1alpha1.RequestKind, origin v1alpha1.RequestOrigin) asked {
	return of(kind).but(func(a *asked) {
		a.user, a.groups = "system:serviceaccount:shop:web", []string{"system:serviceaccounts"}
		a.origin, a.namespaceUnknown = &origin, true
	})
}

// set returns policies that say so about requests of a kind and origin, all in
// one mode.
func (s situation) set(t *testing.T, kind, origin, mode string) *certpolicy.Set {
	t.Helper()
	policies := map[string]string{}
	for name, one := range map[string]struct {
		effect string
		says   state
	}{"limit": {"Limit", s.limit}, "allow": {"Allow", s.allow}, "other": {"Allow", s.other}, "rest": {"DenyRest", s.rest}} {
		if one.says != none {
			policies[name] = one.says.policy(one.effect, kind, origin, mode)
		}
	}
	exceptions := map[string]string{"x": `{policies: [limit, allow], items: ["rules[excepted]"], reason: test, notAfter: "2026-12-01T00:00:00Z",
  match: {signers: ["*"], requesters: {users: ["*"]}}}`}
	return setWith(t, policies, exceptions)
}

// policy returns a policy that says so.
func (s state) policy(effect, kind, origin, mode string) string {
	match := fmt.Sprintf(`signers: ["*"], kinds: [%s], origins: [%s]`, kind, origin)
	if s == opening {
		match += `, namespaces: {selector: {matchLabels: {a: b}}}`
	}
	parts := []string{"effect: " + effect, "mode: '" + mode + "'", "match: {" + match + "}"}
	if effect == "DenyRest" {
		return strings.Join(parts, "\n")
	}
	if effect == "Allow" {
		parts = append(parts, "certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}")
	}
	switch s {
	case violated:
		parts = append(parts, `rules: [{name: violated, expression: "false"}]`)
	case excepted:
		parts = append(parts, `rules: [{name: excepted, expression: "false"}]`)
	case open:
		parts = append(parts, `rules: [{name: open, expression: "namespaceObject.metadata.name == 'x'"}]`)
	case people:
		parts = append(parts, `approval: {mode: People, people: {count: 2}}`)
	case leave:
		parts = append(parts, `approval: {mode: Leave}`)
	}
	return strings.Join(parts, "\n")
}

// TestMatrix: kinds, origins, effects and modes. A policy in another mode than
// Enforce changes no decision, and those in Shadow and Warn say what they would
// change.
func TestMatrix(t *testing.T) {
	kinds := []v1alpha1.RequestKind{csrs, pcrs, crs}
	origins := []v1alpha1.RequestOrigin{v1alpha1.OriginDirect, v1alpha1.OriginCertificate, v1alpha1.OriginACME}
	inputs := map[string]certpolicy.Input{}
	for _, kind := range kinds {
		for _, origin := range origins {
			inputs[string(kind)+string(origin)] = decided(kind, origin).input(t)
		}
	}
	said := map[string][]state{"Allow": {holds, leave, violated, open}, "Limit": {holds, violated, open}, "DenyRest": {holds, opening}}
	for _, mode := range []string{"Enforce", "Warn", "Shadow", "Off"} {
		for effect, states := range said {
			for _, says := range states {
				for _, kind := range kinds {
					for _, origin := range origins {
						if !possible(kind, origin) {
							continue // a policy that can match nothing is refused
						}
						matrixOf(t, inputs, kinds, origins, says, effect, string(kind), string(origin), mode)
					}
				}
			}
		}
	}
}

// possible reports whether requests of a kind have the origin.
func possible(kind v1alpha1.RequestKind, origin v1alpha1.RequestOrigin) bool {
	return origin == v1alpha1.OriginDirect || kind == crs || kind == csrs && origin == v1alpha1.OriginACME
}

// matrixOf decides about requests of all kinds and origins with one policy, for
// one kind and origin.
func matrixOf(t *testing.T, inputs map[string]certpolicy.Input, kinds []v1alpha1.RequestKind, origins []v1alpha1.RequestOrigin, says state, effect, kind, origin, mode string) {
	t.Helper()
	policies := set(t, map[string]string{"p": says.policy(effect, kind, origin, mode)})
	for _, askedKind := range kinds {
		for _, askedOrigin := range origins {
			about := string(askedKind) == kind && string(askedOrigin) == origin
			s := situation{limit: none, allow: none, other: none, rest: none}
			if about {
				switch effect {
				case "Allow":
					s.allow = says
				case "Limit":
					s.limit = says
				default:
					s.rest = says
				}
			}
			would, _ := expected(s)
			want := would
			if mode != "Enforce" {
				want = v1alpha1.OutcomeLeave
			}
			d := policies.Decide(inputs[string(askedKind)+string(askedOrigin)])
			what := fmt.Sprintf("%s %s of %s %s, that %s, for %s %s", mode, effect, kind, origin, says, askedKind, askedOrigin)
			if d.Outcome != want {
				t.Errorf("%s: %s, want %s", what, brief(d), want)
			}
			checkShadow(t, what, d, mode, would)
		}
	}
}

func checkShadow(t *testing.T, what string, d *v1alpha1.PolicyDecision, mode string, would v1alpha1.DecisionOutcome) {
	t.Helper()
	if mode != "Warn" && mode != "Shadow" {
		if len(d.Shadow) > 0 {
			t.Errorf("%s: shadow %+v", what, d.Shadow)
		}
		return
	}
	if len(d.Shadow) == 0 { // requests of other kinds do not concern the policy
		if would != v1alpha1.OutcomeLeave {
			t.Errorf("%s: no shadow, want %s", what, would)
		}
		return
	}
	if got := d.Shadow[0]; got.Policy != "p" || string(got.Mode) != mode || got.Outcome != would || got.Differs != (would != v1alpha1.OutcomeLeave) {
		t.Errorf("%s: shadow %+v, want %s", what, got, would)
	}
}
