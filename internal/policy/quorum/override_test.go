package quorum_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// overridable returns a requirement that one person may override.
func overridable(policy string, count int32, froms ...string) quorum.Requirement {
	r := quorum.Requirement{Policy: policy, People: people(count, froms...)}
	r.People.Override = v1alpha1.OverrideAllowed
	return r
}

// overriding is a write of the user boss, who approves and says why.
func overriding(reqs ...quorum.Requirement) *quorum.Write {
	r := regionalCA
	r.ObjectAnnotations = map[string]string{v1alpha1.AnnotationOverride: " the CA is down "}
	return &quorum.Write{
		Request: r, New: []quorum.Condition{condition("Approved")}, User: quorum.Voter{Person: person("boss")}, Now: now,
		Decide: needing(r, now, reqs...), All: reqs, Open: open, Seal: seal,
		MayOverride: func(policy string) (bool, error) { return policy != "foreign", nil },
	}
}

func TestOverride(t *testing.T) {
	own, other := overridable("own", 2, "1 of pki", "1 of security"), overridable("other", 3)
	strict, foreign := requirement(2, "2 of pki"), overridable("foreign", 2, "2 of pki")
	strict.Policy = "strict"
	type change = func(*quorum.Write)
	as := func(text string) change { return func(w *quorum.Write) { w.User.Person = person(text) } }
	for _, tt := range []struct {
		reason             string
		reqs               []quorum.Requirement
		change             change
		overrides          string // policies
		approved           bool
		warnings, refusals string // a part
	}{
		{reason: "one policy", reqs: []quorum.Requirement{own}, overrides: "own", approved: true,
			warnings: `certificate policy own: your approval overrides it, which is recorded with the reason "the CA is down"`},
		{reason: "several", reqs: []quorum.Requirement{own, other}, overrides: "other own", approved: true},
		{reason: "another policy stands", reqs: []quorum.Requirement{own, strict}, overrides: "own",
			warnings: "certificate policy strict: 0 of 2 approvals; 2 more of pki are needed"},
		{reason: "no right", reqs: []quorum.Requirement{foreign}, refusals: "NotAmongApprovers: certificate policy foreign: your approval does not count: you are not in the group pki",
			warnings: `overriding it needs the verb "override" on certificatepolicies "foreign" of certplane.dev`},
		{reason: "no right, and a vote that counts", reqs: []quorum.Requirement{foreign}, change: as("boss/pki"),
			warnings: "certificate policy foreign: recorded as approval 1 of 2; 1 more of pki is needed"},
		{reason: "forbidden", reqs: []quorum.Requirement{strict}, refusals: "NotAmongApprovers", warnings: "certificate policy strict: it cannot be overridden"},
		{reason: "no reason", reqs: []quorum.Requirement{own}, refusals: "NotAmongApprovers",
			change: func(w *quorum.Write) {
				w.Request.ObjectAnnotations = map[string]string{v1alpha1.AnnotationOverride: " "}
			}},
		{reason: "nobody may", reqs: []quorum.Requirement{own}, refusals: "NotAmongApprovers", change: func(w *quorum.Write) { w.MayOverride = nil }},
		{reason: "the requester", reqs: []quorum.Requirement{own}, refusals: "SelfApproval", change: as("requester/pki")},
		{reason: "impersonated", reqs: []quorum.Requirement{own}, refusals: "Impersonated", change: func(w *quorum.Write) { w.User.Impersonator = "root" }},
		{reason: "a service account", reqs: []quorum.Requirement{own}, refusals: "NotAPerson", change: as("system:serviceaccount:a:b/pki")},
		{reason: "a node", reqs: []quorum.Requirement{own}, refusals: "NotAPerson", change: as("system:node:n/pki")},
		{reason: "denied", reqs: []quorum.Requirement{own}, refusals: "NameNotPermitted", change: func(w *quorum.Write) {
			w.Decide = always(v1alpha1.OutcomeDeny, "NameNotPermitted", "no such name")
		}},
		{reason: "not known", reqs: []quorum.Requirement{own}, refusals: "FactMissing", change: func(w *quorum.Write) { w.Decide = always(v1alpha1.OutcomeWait, "", "") }},
	} {
		w := overriding(tt.reqs...)
		if tt.change != nil {
			tt.change(w)
		}
		m, err := w.Mutate()
		if err != nil {
			t.Fatal(err)
		}
		if m.Refusal != nil || tt.refusals != "" {
			if m.Refusal == nil || !strings.Contains(m.Refusal.Reason+": "+m.Refusal.Message, tt.refusals) || tt.refusals == "" {
				t.Errorf("%s: refused: %+v, want %q", tt.reason, m.Refusal, tt.refusals)
			}
		} else {
			approved := slices.ContainsFunc(m.Conditions, func(c quorum.Condition) bool { return c.Type == "Approved" })
			var overrides string
			if o := m.Recorded.Override; o != nil {
				overrides = strings.Join(o.Policies, " ")
			}
			if approved != tt.approved || overrides != tt.overrides {
				t.Errorf("%s: %s, overrides %q", tt.reason, short(m.Conditions), overrides)
			}
			if w.New = m.Conditions; w.Validate() != nil {
				t.Errorf("%s: what Mutate returns is refused: %+v", tt.reason, w.Validate())
			}
		}
		if got := strings.Join(m.Warnings, "; "); !strings.Contains(got, tt.warnings) {
			t.Errorf("%s: warnings %q", tt.reason, got)
		}
	}
}

// What an override says is in its condition and in its record.
func TestOverrideCondition(t *testing.T) {
	w := overriding(overridable("own", 2), overridable("other", 2))
	m, err := w.Mutate()
	if err != nil {
		t.Fatal(err)
	}
	vote := m.Conditions[len(m.Conditions)-1]
	if vote.Reason != "Override" || quorum.Unsealed(vote) != `boss overrode other and own, because: "the CA is down"; "by hand"` {
		t.Errorf("%s: %s", vote.Reason, vote.Message)
	}
	got := quorum.Votes(m.Conditions, w.Request, open)
	if diff := cmp.Diff([]quorum.Vote{{Username: "boss", Time: now, Override: &quorum.Override{Why: "the CA is down", Policies: []string{"other", "own"}}}}, got); diff != "" {
		t.Error(diff)
	}
}

// The right is asked again after everybody's changes, and the reason must be the
// one on the request.
func TestValidateOverride(t *testing.T) {
	for reason, change := range map[string]func(*quorum.Write){
		"the right is gone":          func(w *quorum.Write) { w.MayOverride = func(string) (bool, error) { return false, nil } },
		"the right is not known":     func(w *quorum.Write) { w.MayOverride = func(string) (bool, error) { return true, errors.New("later") } },
		"the annotation is gone":     func(w *quorum.Write) { w.Request.ObjectAnnotations = nil },
		"the annotation was changed": func(w *quorum.Write) { w.Request.ObjectAnnotations[v1alpha1.AnnotationOverride] = "x" },
	} {
		w := overriding(overridable("own", 2))
		m, err := w.Mutate()
		if err != nil {
			t.Fatal(err)
		}
		w.New = m.Conditions
		if w.Validate() != nil {
			t.Fatal("it is refused without a change")
		}
		w.Request.ObjectAnnotations = maps.Clone(w.Request.ObjectAnnotations)
		if change(w); w.Validate() == nil {
			t.Errorf("%s: it is valid", reason)
		}
	}
	w := overriding(overridable("own", 2))
	w.MayOverride = func(string) (bool, error) { return true, errors.New("later") }
	if _, err := w.Mutate(); err == nil {
		t.Error("an override without an answer about the right")
	}
}

func TestCountOverrides(t *testing.T) {
	boss := quorum.Vote{Username: "boss", Time: now, Override: &quorum.Override{Why: "x", Policies: []string{"own"}}}
	old := boss
	old.Time = now.Add(-quorum.DefaultValidFor)
	own, other := overridable("own", 2, "2 of pki"), overridable("other", 2, "2 of pki")
	closed := own
	closed.People.Override = v1alpha1.OverrideForbidden
	for _, tt := range []struct {
		reason    string
		reqs      []quorum.Requirement
		vote      quorum.Vote
		requester string
		met       bool
	}{
		{"it is overridden", []quorum.Requirement{own}, boss, "a", true},
		{"of another policy", []quorum.Requirement{other}, boss, "a", false},
		{"of one of two", []quorum.Requirement{own, other}, boss, "a", false},
		{"it cannot be overridden any more", []quorum.Requirement{closed}, boss, "a", false},
		{"too old", []quorum.Requirement{own}, old, "a", false},
		{"the requester's", []quorum.Requirement{own}, boss, "boss", false},
		{"an ordinary vote", []quorum.Requirement{own}, vote("boss"), "a", false},
	} {
		got := quorum.Count(tt.reqs, []quorum.Vote{tt.vote}, person(tt.requester), now)
		if got.Met != tt.met || tt.met && (got.Requirements[0].OverriddenBy != "boss" || !got.Votes[0].Counts || got.Votes[0].Override != "x") {
			t.Errorf("%s: %+v", tt.reason, got)
		}
	}
}

// Who has overridden one policy is not asked again for another.
func TestOverrideTwice(t *testing.T) {
	strict := requirement(2, "2 of pki")
	strict.Policy = "strict"
	w := overriding(overridable("own", 2), strict)
	m, err := w.Mutate()
	if err != nil {
		t.Fatal(err)
	}
	w.Old, w.New = m.Conditions, append(slices.Clone(m.Conditions), condition("Approved"))
	m, err = w.Mutate()
	if err != nil || m.Refusal != nil || m.Recorded != nil || !strings.Contains(strings.Join(m.Warnings, "; "), "you have approved already; 2 more of pki are needed") {
		t.Errorf("%+v, %v", m, err)
	}
}
