package protection_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/protection"
	"github.com/certplane/certplane/internal/policy/quorum"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func someone(name string, groups ...string) quorum.Voter {
	return quorum.Voter{Person: quorum.Person{Username: name, Groups: groups}}
}

var (
	alice, bob = someone("alice", "pki"), someone("bob", "security")
	robot      = someone("system:serviceaccount:ci:robot", "system:serviceaccounts", "pki")
)

// spec returns a specification written in YAML.
func spec(text string) map[string]any {
	fields := map[string]any{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		panic(err)
	}
	return fields
}

const (
	allow     = "{effect: Allow, match: {signers: [example.com/ca]}}"
	protected = "{effect: Allow, match: {signers: [example.com/ca]}, protection: {people: {count: 2, from: [{groups: [pki], count: 1}, {groups: [security], count: 1}]}}}"
	weaker    = "{effect: Allow, match: {signers: [example.com/ca]}, message: weaker, protection: {people: {count: 2}}}"
	exempt    = "{policies: [ca], items: [certificate.keys], reason: moving, notAfter: '2026-12-01T00:00:00Z'}"
	ended     = "{policies: [ca], items: [certificate.keys], reason: moving, notAfter: '2026-11-01T00:00:00Z'}"
)

// ca is the protected policy that is stored.
var ca = protection.Policy{
	Name: "ca", Digest: "sha256:ca", Signers: []string{"example.com/ca"},
	People: v1alpha1.ProtectingPeople{Count: 2, From: []v1alpha1.PeopleFrom{{Groups: []string{"pki"}, Count: 1}, {Groups: []string{"security"}, Count: 1}}},
}

// cabinet seals with a list.
type cabinet struct{ records []protection.Record }

func (c *cabinet) seal(r protection.Record) (string, error) {
	c.records = append(c.records, r)
	return fmt.Sprint(len(c.records) - 1), nil
}

func (c *cabinet) open(text string) (protection.Record, error) {
	var i int
	if _, err := fmt.Sscan(text, &i); err != nil || i < 0 || i >= len(c.records) {
		return protection.Record{}, fmt.Errorf("%q is not sealed", text)
	}
	return c.records[i], nil
}

// stored returns an object with a specification.
func stored(name, text string) *protection.Object {
	return &protection.Object{Name: name, UID: "u-" + name, Generation: 3, Created: now.Add(-time.Hour), Spec: spec(text)}
}

func sent(o *protection.Object, text string) *protection.Object {
	changed := *o
	changed.Spec = spec(text)
	return &changed
}

func (c *cabinet) write(kind protection.Kind, who quorum.Voter, old, sent *protection.Object) *protection.Write {
	return &protection.Write{Kind: kind, Old: old, New: sent, Protected: []protection.Policy{ca}, User: who, Now: now, Open: c.open, Seal: c.seal}
}

func mutate(t *testing.T, w *protection.Write) protection.Outcome {
	t.Helper()
	m, err := w.Mutate()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRequired(t *testing.T) {
	for _, tc := range []struct {
		reason     string
		kind       protection.Kind
		name       string
		old, other string
		want       string
	}{
		{"another spec of the policy", protection.Policies, "ca", protected, weaker, "ca"},
		{"its protection is removed", protection.Policies, "ca", protected, allow, "ca"},
		{"it is switched off", protection.Policies, "ca", protected, strings.Replace(protected, "{", "{mode: 'Off', ", 1), "ca"},
		{"protection is added", protection.Policies, "other", allow, protected, ""},
		{"the same", protection.Policies, "ca", protected, protected, ""},
		{"a new Allow for the same signer", protection.Policies, "other", "", allow, "ca"},
		{"one for all signers", protection.Policies, "other", "", "{effect: Allow, match: {signers: ['*']}}", "ca"},
		{"one for signers that cannot be read", protection.Policies, "other", "", "{effect: Allow, match: {signers: ['/']}}", "ca"},
		{"one for another signer", protection.Policies, "other", "", "{effect: Allow, match: {signers: [example.com/web]}}", ""},
		{"one that is off", protection.Policies, "other", "", "{effect: Allow, mode: 'Off', match: {signers: ['*']}}", ""},
		{"it is switched on", protection.Policies, "other", "{effect: Allow, mode: 'Off', match: {signers: ['*']}}", "{effect: Allow, match: {signers: ['*']}}", "ca"},
		{"it is tried", protection.Policies, "other", "", "{effect: Allow, mode: Shadow, match: {signers: ['*']}}", ""},
		{"a Limit becomes an Allow", protection.Policies, "other", "{effect: Limit, match: {signers: ['*']}}", "{effect: Allow, match: {signers: ['*']}}", "ca"},
		{"an Allow for the signer is changed", protection.Policies, "other", allow, "{effect: Allow, match: {signers: [example.com/ca]}, rules: [{name: a, expression: 'true'}]}", "ca"},
		{"only its message is", protection.Policies, "other", allow, "{effect: Allow, match: {signers: [example.com/ca]}, message: hello}", ""},
		{"it is switched off by one", protection.Policies, "other", allow, "{effect: Allow, mode: 'Off', match: {signers: [example.com/ca]}}", ""},
		{"a new Limit", protection.Policies, "other", "", "{effect: Limit, match: {signers: ['*']}}", ""},
		{"a new protected Allow for the signer", protection.Policies, "other", "", weaker, "ca other"},
		{"a new exception", protection.Exceptions, "x", "", exempt, "ca"},
		{"one from another policy", protection.Exceptions, "x", "", strings.Replace(exempt, "[ca]", "[web]", 1), ""},
		{"it names the policy no more", protection.Exceptions, "x", exempt, strings.Replace(exempt, "[ca]", "[web]", 1), "ca"},
		{"it ends", protection.Exceptions, "x", exempt, ended, "ca"},
		{"it is extended after its end", protection.Exceptions, "x", ended, exempt, "ca"},
		{"it has ended", protection.Exceptions, "x", ended, strings.Replace(ended, "moving", "moved", 1), ""},
		{"a new one that has ended", protection.Exceptions, "x", "", ended, ""},
		{"a new one that ended when clocks may differ", protection.Exceptions, "x", "", strings.Replace(exempt, "2026-12-01T00:00:00", "2026-11-24T11:58:00", 1), "ca"},
	} {
		w := (&cabinet{}).write(tc.kind, alice, stored(tc.name, tc.old+" "), nil)
		if tc.old == "" {
			w.Old = nil
		}
		w.New = sent(stored(tc.name, "{}"), tc.other)
		reqs, err := w.Required()
		var names []string
		for _, req := range reqs {
			names = append(names, req.Policy)
		}
		if got := strings.Join(names, " "); err != nil || got != tc.want {
			t.Errorf("%s: needs people of %q, want %q; %v", tc.reason, got, tc.want, err)
		}
	}
}

// TestTwoPeople: the first write is a proposal, the second changes the policy.
func TestTwoPeople(t *testing.T) {
	c, old := &cabinet{}, stored("ca", protected)
	m := mutate(t, c.write(protection.Policies, alice, old, sent(old, weaker)))
	want := []string{"certificate policy ca: recorded as approval 1 of 2; 1 more of security is needed", "the policy is not changed yet; others agree by writing the same"}
	if !m.Restore || m.Recorded == nil || fmt.Sprint(m.Warnings) != fmt.Sprint(want) || fmt.Sprint(m.Recorded.Changes) != "[message protection.people.from]" {
		t.Fatalf("%+v\n%+v", m, m.Recorded)
	}
	old.Proposals = m.Proposals
	for _, tc := range []struct {
		reason string
		who    quorum.Voter
		spec   string
		change func(*protection.Object)
		// outcome is applied, recorded, kept, or the reason of the refusal.
		outcome string
	}{
		{"another person writes the same", bob, weaker, nil, "applied"},
		{"the same person writes the same", alice, weaker, nil, "kept"},
		{"another person writes something else", bob, allow, nil, "recorded"},
		{"somebody of the same group", someone("carol", "pki"), weaker, nil, quorum.ReasonNotAmongApprovers},
		{"somebody of no group", someone("erin"), weaker, nil, quorum.ReasonNotAmongApprovers},
		{"a service account", robot, weaker, nil, quorum.ReasonNotAPerson},
		{"a node", someone("system:node:n", "security"), weaker, nil, quorum.ReasonNotAPerson},
		{"somebody in the name of another", quorum.Voter{Person: bob.Person, Impersonator: "root"}, weaker, nil, quorum.ReasonImpersonated},
		{"the policy has changed", bob, weaker, func(o *protection.Object) { o.Generation++ }, "recorded"},
		{"the policy has another spec", bob, weaker, func(o *protection.Object) { o.Spec["message"] = "x" }, "recorded"},
		{"it is another policy of the name", bob, weaker, func(o *protection.Object) { o.UID = "other" }, "recorded"},
		{"the proposal is not sealed", bob, weaker, func(o *protection.Object) { o.Proposals = `["7"]` }, "recorded"},
		{"the policy is being deleted", bob, weaker, func(o *protection.Object) { o.Deleting = true }, protection.ReasonProtected},
	} {
		before := *old
		before.Spec = spec(protected)
		if tc.change != nil {
			tc.change(&before)
		}
		m := mutate(t, c.write(protection.Policies, tc.who, &before, sent(&before, tc.spec)))
		outcome := "applied"
		switch {
		case m.Refusal != nil:
			outcome = m.Refusal.Reason
		case m.Recorded != nil:
			outcome = "recorded"
		case m.Restore:
			outcome = "kept"
		}
		if outcome != tc.outcome || outcome == "applied" && m.Proposals != "" {
			t.Errorf("%s: %s, want %s; %+v", tc.reason, outcome, tc.outcome, m)
		}
	}
}

// TestProposalsExpire: a proposal counts for validFor. Then it is neither shown nor
// kept.
func TestProposalsExpire(t *testing.T) {
	c, old := &cabinet{}, stored("ca", protected)
	old.Proposals = mutate(t, c.write(protection.Policies, alice, old, sent(old, weaker))).Proposals
	for after, applied := range map[time.Duration]bool{72*time.Hour - time.Second: true, 72 * time.Hour: false} {
		w := c.write(protection.Policies, bob, old, sent(old, weaker))
		w.Now = now.Add(after)
		m := mutate(t, w)
		if (m.Recorded == nil) != applied || strings.Contains(m.Proposals, ",") {
			t.Errorf("after %v: %+v", after, m)
		}
		if standing := protection.Standing(protection.Policies, old, w.Protected, c.open, w.Now); (standing != "") != applied {
			t.Errorf("after %v, the proposals are said to be %q", after, standing)
		}
	}
}

// TestCreation: what is new and needs people is stored without an effect, also for
// versions that know nothing of it.
func TestCreation(t *testing.T) {
	for kind, tc := range map[protection.Kind]struct{ text, field, value string }{
		protection.Policies:   {allow, "mode", "Off"},
		protection.Exceptions: {exempt, "notAfter", "2026-11-24T11:55:00Z"},
	} {
		c := &cabinet{}
		created := &protection.Object{Name: "new", Spec: spec(tc.text)}
		m := mutate(t, c.write(kind, alice, nil, created))
		if m.Spec[tc.field] != tc.value || m.Recorded == nil || m.Refusal != nil {
			t.Fatalf("%s: %+v", kind, m)
		}
		inert := &protection.Object{Name: "new", UID: "u", Generation: 1, Created: now, Spec: m.Spec, Proposals: m.Proposals}
		if refusal := c.write(kind, alice, nil, inert).Validate(); refusal != nil {
			t.Errorf("%s: %+v", kind, refusal)
		}
		if refusal := c.write(kind, bob, nil, inert).Validate(); refusal == nil {
			t.Errorf("%s: bob may create it with alice's proposal", kind)
		}
		if refusal := c.write(kind, alice, nil, created).Validate(); refusal == nil {
			t.Errorf("%s: it may be created as it was sent", kind)
		}
		applied := sent(inert, tc.text)
		applied.Proposals, applied.Agreed = "", m.Proposals
		if refusal := c.write(kind, alice, inert, applied).Validate(); refusal == nil {
			t.Errorf("%s: alice alone may put it into force", kind)
		}
		applied.Agreed = mutate(t, c.write(kind, bob, inert, applied)).Agreed
		if refusal := c.write(kind, bob, inert, applied).Validate(); refusal != nil {
			t.Errorf("%s: %+v", kind, refusal)
		}
		later := *inert
		if later.Created = now.Add(time.Hour); c.write(kind, bob, &later, applied).Validate() == nil {
			t.Errorf("%s: the proposal counts for one that was created later", kind)
		}
		if m := mutate(t, c.write(kind, alice, nil, &protection.Object{Spec: spec(tc.text)})); m.Refusal == nil {
			t.Errorf("%s: it needs no name", kind)
		}
		if m := mutate(t, c.write(kind, robot, nil, created)); m.Refusal == nil || m.Refusal.Reason != quorum.ReasonNotAPerson {
			t.Errorf("%s: a service account may create it: %+v", kind, m)
		}
	}
}

// TestValidate: whatever others do to a write after Mutate, too few people change
// nothing, and proposals stay.
func TestValidate(t *testing.T) {
	c, old := &cabinet{}, stored("ca", protected)
	first := mutate(t, c.write(protection.Policies, alice, old, sent(old, weaker))).Proposals
	old.Proposals = first
	second := mutate(t, c.write(protection.Policies, bob, old, sent(old, allow))).Proposals
	both := mutate(t, c.write(protection.Policies, bob, old, sent(old, weaker))).Agreed
	for _, tc := range []struct {
		reason    string
		who       quorum.Voter
		spec      string
		proposals string
		permitted bool
	}{
		{"nothing changes", alice, protected, first, true},
		{"bob's proposal is added", bob, protected, second, true},
		{"bob's proposal is added by alice", alice, protected, second, false},
		{"alice's is removed", bob, protected, "", false},
		{"alice's is replaced by bob's", bob, protected, `["1"]`, false},
		{"something else is there", bob, protected, `["0","nonsense"]`, false},
		{"it is not a list", bob, protected, `{}`, false},
		{"the second person writes the same", bob, weaker, "", true},
		{"the second person's record is used by another", someone("carol", "security"), weaker, "", false},
		{"the proposals stay although they are void", bob, weaker, first, false},
		{"the second person's write was changed", bob, allow, "", false},
		{"the first person alone", alice, weaker, "", false},
		{"somebody who does not count", robot, weaker, "", false},
	} {
		changed := sent(old, tc.spec)
		if changed.Proposals = tc.proposals; tc.spec != protected {
			changed.Agreed = both
		}
		if refusal := c.write(protection.Policies, tc.who, old, changed).Validate(); (refusal == nil) != tc.permitted {
			t.Errorf("%s: %+v", tc.reason, refusal)
		}
	}
	unsealed := sent(old, weaker)
	if unsealed.Proposals = ""; c.write(protection.Policies, bob, old, unsealed).Validate() == nil {
		t.Error("the second person's write counts although nothing is sealed")
	}
	claimed := sent(old, protected)
	if claimed.Agreed = both; c.write(protection.Policies, bob, old, claimed).Validate() == nil {
		t.Error("it says who has agreed although nothing changes")
	}
	old.Deleting = true
	if c.write(protection.Policies, bob, old, sent(old, weaker)).Validate() == nil {
		t.Error("a policy that is being deleted is changed")
	}
	bare := stored("new", allow)
	if bare.Deleting = true; c.write(protection.Policies, bob, bare, sent(bare, protected)).Validate() == nil {
		t.Error("a policy that is being deleted is protected")
	}
}

func TestMayDelete(t *testing.T) {
	for _, tc := range []struct {
		reason    string
		kind      protection.Kind
		spec      string
		permitted bool
	}{
		{"a protected policy", protection.Policies, protected, false},
		{"one that is tried", protection.Policies, strings.Replace(protected, "{", "{mode: Shadow, ", 1), false},
		{"one that is off", protection.Policies, strings.Replace(protected, "{", "{mode: 'Off', ", 1), true},
		{"one that is not protected", protection.Policies, allow, true},
		{"one whose protection cannot be read", protection.Policies, "{protection: 1}", false},
		{"an exception from a protected one", protection.Exceptions, exempt, false},
		{"one that has ended", protection.Exceptions, ended, true},
		{"one from another policy", protection.Exceptions, strings.Replace(exempt, "[ca]", "[web]", 1), true},
	} {
		if refusal := (&cabinet{}).write(tc.kind, alice, stored("ca", tc.spec), nil).MayDelete(); (refusal == nil) != tc.permitted {
			t.Errorf("%s: %+v", tc.reason, refusal)
		}
	}
}

// TestUnreadableProtection: what protects a policy is never less than two people.
func TestUnreadableProtection(t *testing.T) {
	for _, text := range []string{"{protection: 1}", "{protection: {people: 7}}", "{protection: {people: {}}}", "{protection: {people: {count: -1}}}"} {
		c, old := &cabinet{}, stored("ca", text)
		if m := mutate(t, c.write(protection.Policies, alice, old, sent(old, allow))); m.Refusal == nil && m.Recorded == nil {
			t.Errorf("%s: one person changes the policy", text)
		}
		if c.write(protection.Policies, alice, old, sent(old, allow)).Validate() == nil {
			t.Errorf("%s: one person changes the policy past Mutate", text)
		}
	}
}
