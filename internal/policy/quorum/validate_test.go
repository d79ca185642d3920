package quorum_test

import (
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

func TestValidate(t *testing.T) {
	alice, bob := recorded(t, regionalCA, 1, "alice/pki ago=1h"), recorded(t, regionalCA, 2, "bob/security")
	waiting := quorum.Condition{Type: quorum.AwaitingApproval, Status: "True"}
	changed := alice
	changed.Reason = "Override"
	approve, deny, failed := condition("Approved"), condition("Denied"), condition("Failed")
	otherContent := regionalCA
	otherContent.PEM = []byte("other")
	type list = []quorum.Condition
	tests := []struct {
		reason       string
		old, new     list
		impersonator string
		decide       quorum.DecideFunc
		// user is bob/security by default.
		user string
		want string
	}{
		{reason: "the last vote", old: list{waiting, alice}, new: list{alice, approve, bob}},
		{reason: "a vote", old: list{}, new: list{waiting, recorded(t, regionalCA, 1, "bob/security")}},
		{reason: "a vote of a minute ago", old: list{alice}, new: list{alice, recorded(t, regionalCA, 2, "bob/security ago=1m")}},
		{reason: "a status", old: list{waiting, alice}, new: list{alice, waiting, failed}},
		{reason: "a denial", old: list{waiting, alice}, new: list{alice, deny}},
		{reason: "nothing", old: list{waiting, alice}, new: list{waiting, alice}},
		{reason: "a waiting condition comes and goes", old: list{waiting}, new: list{}},
		{reason: "an approval that needs nobody", old: list{}, new: list{approve}, decide: needing(regionalCA, now)},

		{reason: "an approval alone", old: list{}, new: list{approve},
			want: "ApprovalsMissing: certificate policy intermediate-ca: 0 of 2 approvals: 1 more of pki and 1 more of security"},
		{reason: "an approval too early", old: list{}, new: list{approve, recorded(t, regionalCA, 1, "bob/security")},
			want: "ApprovalsMissing: certificate policy intermediate-ca: 1 of 2 approvals: 1 more of pki"},
		{reason: "an approval that becomes true", old: list{{Type: "Approved", Status: "False"}}, new: list{approve},
			want: "ApprovalsMissing: certificate policy intermediate-ca: 0 of 2 approvals: 1 more of pki and 1 more of security"},
		{reason: "a denied approval", old: list{}, new: list{approve}, decide: always(v1alpha1.OutcomeDeny, "RuleViolated", "no"), want: "RuleViolated: no"},
		{reason: "an approval without policies", old: list{}, new: list{approve}, decide: always(v1alpha1.OutcomeWait, "PolicyUnavailable", "no policies"),
			want: "PolicyUnavailable: no policies; try again later"},
		{reason: "both", old: list{alice}, new: list{alice, bob, approve, deny}, want: "Invalid: a request cannot be approved and denied at once"},

		{reason: "a vote removed", old: list{alice}, new: list{}, want: theirs("certplane.dev/approval-1 was removed")},
		{reason: "a vote changed", old: list{alice}, new: list{changed}, want: theirs("certplane.dev/approval-1 was changed")},
		{reason: "a vote twice", old: list{alice}, new: list{alice, alice}, want: theirs("certplane.dev/approval-1 is there twice")},
		{reason: "two votes", old: list{}, new: list{bob, recorded(t, regionalCA, 3, "bob/security")}, want: theirs("certplane.dev/approval-3 was added")},
		{reason: "another condition", old: list{}, new: list{condition("certplane.dev/mine")}, want: theirs("certplane.dev/mine was added")},
		{reason: "a number that is none", old: list{}, new: list{condition("certplane.dev/approval-01")}, want: theirs("certplane.dev/approval-01 was added")},
		{reason: "a forged vote", old: list{alice}, new: list{alice, condition("certplane.dev/approval-2")},
			want: theirs("certplane.dev/approval-2 was added: condition certplane.dev/approval-2 has no sealed record")},
		{reason: "somebody else's vote", old: list{alice}, new: list{alice, bob}, user: "carol/security",
			want: theirs("certplane.dev/approval-2 was added, and is not the user's")},
		{reason: "the vote of a user of this name", old: list{alice}, new: list{alice, bob}, user: "bob/security uid=2",
			want: theirs("certplane.dev/approval-2 was added, and is not the user's")},
		{reason: "impersonated", old: list{alice}, new: list{alice, bob}, impersonator: "root", want: theirs("certplane.dev/approval-2 was added, and is not the user's")},
		{reason: "the vote for other content", old: list{alice}, new: list{alice, recorded(t, otherContent, 2, "bob/security")},
			want: theirs("certplane.dev/approval-2 was added: the record is of an approval of other content")},
		{reason: "a vote of yesterday", old: list{alice}, new: list{alice, recorded(t, regionalCA, 2, "bob/security ago=24h")},
			want: theirs("certplane.dev/approval-2 was added, and is of another time")},
		{reason: "a vote too many", old: list{alice}, new: list{alice, recorded(t, regionalCA, 17, "bob/security")},
			want: theirs("certplane.dev/approval-17 was added, and is one too many")},

		{reason: "a status after the approval", old: list{alice, approve}, new: list{alice, approve, failed}},
		{reason: "a vote after the approval", old: list{alice, approve}, new: list{alice, approve, bob}, want: theirs("certplane.dev/approval-2 was added")},
		{reason: "a vote removed after the denial", old: list{alice, deny}, new: list{deny}, want: theirs("certplane.dev/approval-1 was removed")},
		{reason: "waiting after the denial", old: list{deny}, new: list{deny, waiting}, want: theirs("certplane.dev/awaiting-approval was added")},
	}
	for _, tc := range tests {
		w := &quorum.Write{Request: regionalCA, Old: tc.old, New: tc.new, User: quorum.Voter{Person: person("bob/security")}, Now: now, Decide: tc.decide, Open: open}
		if tc.user != "" {
			w.User.Person = person(tc.user)
		}
		w.User.Impersonator = tc.impersonator
		if w.Decide == nil {
			w.Decide = needing(regionalCA, now, intermediate)
		}
		got := ""
		if refusal := w.Validate(); refusal != nil {
			got = refusal.Reason + ": " + refusal.Message
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

func theirs(what string) string {
	return "ApprovalsChanged: condition " + what + "; only certplane writes conditions of types that begin with certplane.dev/"
}

// Which records count as votes for regionalCA.
func TestVotes(t *testing.T) {
	of := func(change func(*request.Request)) request.Request {
		r := regionalCA
		change(&r)
		return r
	}
	renumbered := recorded(t, regionalCA, 1, "alice/pki")
	renumbered.Type = quorum.VoteType(2)
	renamed := recorded(t, regionalCA, 1, "alice/pki")
	renamed.Type = "example.com/approval-1"
	foreign := sealed(t, sealKey("x"), quorum.Record{})
	tests := []struct {
		reason    string
		condition quorum.Condition
		counts    bool
	}{
		{"a vote", recorded(t, regionalCA, 1, "alice/pki"), true},
		{"of an earlier request", recorded(t, of(func(r *request.Request) { r.UID = "u0" }), 1, "alice/pki"), false},
		{"of no UID", recorded(t, of(func(r *request.Request) { r.UID = "" }), 1, "alice/pki"), false},
		{"of another name", recorded(t, of(func(r *request.Request) { r.Name = "other" }), 1, "alice/pki"), false},
		{"of another namespace", recorded(t, of(func(r *request.Request) { r.Namespace = "shop" }), 1, "alice/pki"), false},
		{"of another kind", recorded(t, of(func(r *request.Request) { r.Kind = "CertificateRequest" }), 1, "alice/pki"), false},
		{"of other content", recorded(t, of(func(r *request.Request) { r.SignerName = "example.com/b" }), 1, "alice/pki"), false},
		{"before an annotation made it a CA", recorded(t, of(func(r *request.Request) {
			r.ObjectAnnotations = map[string]string{request.AnnotationIsCA: "true"}
		}), 1, "alice/pki"), false},
		{"of nobody", recorded(t, regionalCA, 1, "/pki"), false},
		{"copied", renumbered, false},
		{"of another type", renamed, false},
		{"of another server", quorum.Condition{Type: quorum.VoteType(1), Message: "x (sealed " + foreign + ")"}, false},
		{"of a newer version", quorum.Condition{Type: quorum.VoteType(1), Message: "x (sealed v2.a.b.c)"}, false},
		{"no record", condition(quorum.VoteType(1)), false},
	}
	for _, tc := range tests {
		if votes := quorum.Votes([]quorum.Condition{tc.condition}, regionalCA, open); (len(votes) == 1) != tc.counts {
			t.Errorf("%s: %+v", tc.reason, votes)
		}
	}
}

// Votes expire, and can be given again, with the groups of the new vote.
func TestVotingAgain(t *testing.T) {
	conditions := []quorum.Condition(nil)
	steps := []struct {
		after    time.Duration
		user     string
		want     string
		warnings int
	}{
		{0, "alice/pki", "awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice of pki approved, 1 of 2: \"by hand\"", 1},
		{71 * time.Hour, "alice/pki", "awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice of pki approved, 1 of 2: \"by hand\"", 1},
		{time.Hour, "bob/security", "awaiting-approval: 1 of 2 approvals: 1 more of pki | approval-1: alice of pki approved, 1 of 2: \"by hand\" | approval-2: bob of security approved, 1 of 2: \"by hand\"", 1},
		{time.Hour, "alice/pki", "approval-1: alice of pki approved, 1 of 2: \"by hand\" | approval-2: bob of security approved, 1 of 2: \"by hand\" | Approved | approval-3: alice of pki approved, 2 of 2: \"by hand\"", 0},
	}
	at := now
	for i, step := range steps {
		at = at.Add(step.after)
		w := &quorum.Write{
			Request: regionalCA, Old: conditions, New: append(conditions[:len(conditions):len(conditions)], condition("Approved")),
			User: quorum.Voter{Person: person(step.user)}, Now: at, Decide: needing(regionalCA, at, intermediate), Open: open, Seal: seal,
		}
		m, err := w.Mutate()
		if err != nil || m.Refusal != nil {
			t.Fatalf("step %d: %+v, %v", i, m.Refusal, err)
		}
		conditions = m.Conditions
		if got := short(conditions); got != step.want || len(m.Warnings) != step.warnings {
			t.Errorf("step %d: %q, want %q; %q", i, got, step.want, m.Warnings)
		}
	}
}
