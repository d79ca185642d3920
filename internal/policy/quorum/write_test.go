package quorum_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

var regionalCA = request.Request{
	Kind: "CertificateSigningRequest", Name: "regional-ca", UID: "u1", SignerName: "example.com/ca", PEM: []byte("request"),
	Usages: []string{"cert sign", "digital signature"}, Duration: new(time.Hour), Requester: request.Requester{Username: "requester"},
}

// intermediate is the policy of which most tests are about.
var intermediate = quorum.Requirement{Policy: "intermediate-ca", Digest: "sha256:11", People: officers.People}

// open opens records as the server does.
func open(text string) (quorum.Record, error) {
	return quorum.Open([]ed25519.PublicKey{public(present), public(former)}, text)
}

func seal(r quorum.Record) (string, error) { return quorum.Seal(present, r) }

// needing decides by requirements alone.
func needing(r request.Request, now time.Time, reqs ...quorum.Requirement) quorum.DecideFunc {
	return func(votes []quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
		if len(reqs) == 0 {
			return &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeLeave}, nil
		}
		result := quorum.Count(reqs, votes, r.Requester, now)
		d := &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeNeedPeople, People: &v1alpha1.PeopleDecision{
			Met: result.Met, Requirements: result.Requirements, Votes: result.Votes,
		}}
		if result.Met {
			d.Outcome = v1alpha1.OutcomeApprove
		}
		return d, reqs
	}
}

// always has one outcome.
func always(outcome v1alpha1.DecisionOutcome, reason, message string) quorum.DecideFunc {
	return func([]quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
		return &v1alpha1.PolicyDecision{Outcome: outcome, Reason: reason, Message: message}, nil
	}
}

func condition(conditionType string) quorum.Condition {
	return quorum.Condition{Type: conditionType, Status: "True", Reason: "KubectlApprove", Message: "by hand"}
}

// recorded returns the condition of a vote on r, sealed by the present key.
func recorded(t testing.TB, r request.Request, n int, text string) quorum.Condition {
	t.Helper()
	v := vote(text)
	return quorum.Condition{Type: quorum.VoteType(n), Status: "True", Reason: "Approved", Message: v.Username + " approved (sealed " + sealed(t, present, quorum.Record{
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Digest: quorum.Digest(r),
		User: v.Username, UserUID: v.UID, Groups: v.Groups, Extra: v.Extra, Time: v.Time, N: n,
	}) + ")"}
}

// short returns conditions in one line: votes by voter, awaiting-approval with
// its message.
func short(conditions []quorum.Condition) string {
	var texts []string
	for _, c := range conditions {
		text := strings.TrimPrefix(c.Type, quorum.ConditionPrefix)
		if before, _, ok := strings.Cut(c.Message, " (sealed "); ok {
			text += ": " + before
		} else if c.Type == quorum.AwaitingApproval {
			text += ": " + c.Message
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " | ")
}

func TestMutate(t *testing.T) {
	alice := recorded(t, regionalCA, 1, "alice/pki ago=1h")
	waiting := quorum.Condition{Type: quorum.AwaitingApproval, Status: "True", Reason: "ApprovalsMissing", Message: "1 of 2 approvals: 1 more of security"}
	newer := quorum.Condition{Type: "certplane.dev/approval-2", Status: "True", Reason: "Approved", Message: "bob approved (sealed v2.x.y.z)"}
	future := quorum.Condition{Type: "certplane.dev/something", Status: "True"}
	approve, deny, failed := condition("Approved"), condition("Denied"), condition("Failed")
	type list = []quorum.Condition
	tests := []struct {
		reason       string
		old, new     list
		user         string
		impersonator string
		decide       quorum.DecideFunc
		want         string
		warnings     string
		refusal      string
	}{
		{reason: "the first approval", new: list{approve}, user: "alice/pki,dev",
			want:     "awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice of pki approved, 1 of 2: \"by hand\"",
			warnings: "certificate policy intermediate-ca: recorded as approval 1 of 2; 1 more of security is needed"},
		{reason: "the last approval", old: list{waiting, alice}, new: list{waiting, alice, approve}, user: "bob/security",
			want: "approval-1: alice approved | Approved | approval-2: bob of security approved, 2 of 2: \"by hand\""},
		{reason: "the last approval, by a PUT of nothing else", old: list{waiting, alice}, new: list{approve}, user: "bob/security",
			want: "Approved | approval-1: alice approved | approval-2: bob of security approved, 2 of 2: \"by hand\""},
		{reason: "twice", old: list{alice}, new: list{alice, approve}, user: "alice/pki",
			want:     "approval-1: alice approved | awaiting-approval: 1 of 2 approvals: 1 more of security",
			warnings: "certificate policy intermediate-ca: you have approved already; 1 more of security is needed"},
		{reason: "of no group", old: list{alice}, new: list{alice, approve}, user: "carol/dev",
			refusal: "NotAmongApprovers: certificate policy intermediate-ca: your approval does not count: you are not in the group security"},
		{reason: "the requester", new: list{approve}, user: "requester/pki",
			refusal: "SelfApproval: certificate policy intermediate-ca: your approval does not count: requesters cannot approve their own requests"},
		{reason: "impersonated", new: list{approve}, user: "alice/pki", impersonator: "root",
			refusal: "Impersonated: certificate policy intermediate-ca: your approval does not count: root impersonates alice, and people approve in their own name"},
		{reason: "denied", new: list{approve}, user: "alice/pki", decide: always(v1alpha1.OutcomeDeny, "NameNotPermitted", "no such name"),
			refusal: "NameNotPermitted: no such name"},
		{reason: "a fact is missing", new: list{approve}, user: "alice/pki", decide: always(v1alpha1.OutcomeWait, "", "nodes/n1 is not known"),
			refusal: "FactMissing: nodes/n1 is not known; try again later"},
		{reason: "policies are missing", new: list{approve}, user: "alice/pki", decide: always(v1alpha1.OutcomeWait, "PolicyUnavailable", "no policies"),
			refusal: "PolicyUnavailable: no policies; try again later"},
		{reason: "nobody is needed", old: list{waiting}, new: list{waiting, approve}, user: "carol", decide: always(v1alpha1.OutcomeApprove, "", ""), want: "Approved"},
		{reason: "policies say nothing", new: list{approve}, user: "carol", decide: always(v1alpha1.OutcomeLeave, "", ""), want: "Approved"},
		{reason: "deny", old: list{waiting, alice}, new: list{waiting, alice, deny}, user: "carol", want: "approval-1: alice approved | Denied"},
		{reason: "deny, and forge", old: list{waiting, alice}, new: list{deny, future}, user: "carol", want: "Denied | approval-1: alice approved"},
		{reason: "both", new: list{approve, deny}, user: "alice/pki", refusal: "Invalid: a request cannot be approved and denied at once"},
		{reason: "an approval that is not true", new: list{{Type: "Approved", Status: "False"}}, user: "alice/pki",
			want:     "awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice of pki approved, 1 of 2",
			warnings: "certificate policy intermediate-ca: recorded as approval 1 of 2; 1 more of security is needed"},
		{reason: "an approval that becomes true", old: list{{Type: "Approved", Status: "False"}}, new: list{approve}, user: "alice/pki",
			want:     "awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice of pki approved, 1 of 2: \"by hand\"",
			warnings: "certificate policy intermediate-ca: recorded as approval 1 of 2; 1 more of security is needed"},

		{reason: "the approver makes it visible", user: "system:apiserver", want: "awaiting-approval: 0 of 2 approvals: 1 more of pki and 1 more of security"},
		{reason: "status", old: list{alice}, new: list{alice, failed}, user: "signer", want: "approval-1: alice approved | Failed | awaiting-approval: 1 of 2 approvals: 1 more of security"},
		{reason: "status without the votes", old: list{waiting, alice}, new: list{failed}, user: "signer",
			want: "Failed | awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice approved"},
		{reason: "forged votes", new: list{alice, newer, future}, user: "signer", want: "awaiting-approval: 0 of 2 approvals: 1 more of pki and 1 more of security"},
		{reason: "changed votes", old: list{alice}, new: list{{Type: alice.Type, Status: "True", Message: "mine"}}, user: "signer",
			want: "approval-1: alice approved | awaiting-approval: 1 of 2 approvals: 1 more of security"},
		{reason: "duplicates", old: list{waiting, alice}, new: list{alice, alice, waiting}, user: "signer",
			want: "approval-1: alice approved | awaiting-approval: 1 of 2 approvals: 1 more of security"},
		{reason: "those of another version stay, and do not count", old: list{newer, future}, new: list{approve}, user: "alice/pki",
			want:     "approval-2: bob approved | something | awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice of pki approved, 1 of 2: \"by hand\"",
			warnings: "certificate policy intermediate-ca: recorded as approval 1 of 2; 1 more of security is needed"},
		{reason: "a fact is missing, nothing is approved", old: list{waiting}, new: list{waiting}, user: "signer", decide: always(v1alpha1.OutcomeWait, "", ""),
			want: "awaiting-approval: 1 of 2 approvals: 1 more of security"},
		{reason: "nobody is needed any more", old: list{waiting}, new: list{waiting}, user: "signer", decide: always(v1alpha1.OutcomeLeave, "", "")},
		{reason: "after the approval", old: list{alice, approve}, new: list{approve, newer, future}, user: "signer", want: "Approved | approval-1: alice approved"},
		{reason: "after the denial", old: list{waiting, alice, deny}, new: list{deny, approve}, user: "bob/security",
			want: "Denied | Approved | awaiting-approval: 1 of 2 approvals: 1 more of security | approval-1: alice approved"},
		{reason: "too many votes", old: taken(16), new: list{approve}, user: "alice/pki",
			refusal: "TooManyApprovals: the request has 16 approvals, and cannot have more; make another request"},
	}
	for _, tc := range tests {
		w := &quorum.Write{
			Request: regionalCA, Old: tc.old, New: tc.new, User: quorum.Voter{Person: person(tc.user), Impersonator: tc.impersonator}, Now: now,
			Decide: tc.decide, Open: open, Seal: seal,
		}
		if w.Decide == nil {
			w.Decide = needing(regionalCA, now, intermediate)
		}
		before := short(tc.old) + short(tc.new)
		m, err := w.Mutate()
		if err != nil {
			t.Fatal(err)
		}
		if m.Refusal != nil {
			if got := m.Refusal.Reason + ": " + m.Refusal.Message; got != tc.refusal {
				t.Errorf("%s: refused: %q, want %q", tc.reason, got, tc.refusal)
			}
			continue
		}
		if got := short(m.Conditions); got != tc.want || tc.refusal != "" {
			t.Errorf("%s: %q, want %q %q", tc.reason, got, tc.want, tc.refusal)
		}
		if got := strings.Join(m.Warnings, "; "); got != tc.warnings {
			t.Errorf("%s: warnings %q, want %q", tc.reason, got, tc.warnings)
		}
		if after := short(tc.old) + short(tc.new); after != before {
			t.Errorf("%s: the arguments became %q", tc.reason, after)
		}
		if recorded := strings.Count(tc.want, "of pki approved")+strings.Count(tc.want, "of security approved") > 0; recorded != (m.Recorded != nil) {
			t.Errorf("%s: recorded %+v", tc.reason, m.Recorded)
		}
		w.New = m.Conditions
		if refusal := w.Validate(); refusal != nil {
			t.Errorf("%s: what Mutate returns is not valid: %+v", tc.reason, refusal)
		}
	}
}

// taken returns conditions that take the first n numbers.
func taken(n int) []quorum.Condition {
	var conditions []quorum.Condition
	for i := range n {
		conditions = append(conditions, condition(quorum.VoteType(i+1)))
	}
	return conditions
}

func TestRecord(t *testing.T) {
	other := quorum.Requirement{Policy: "other", People: people(2, "1 of audit")}
	other.People.DistinctBy = "Extra:login"
	w := &quorum.Write{
		Request: regionalCA, New: []quorum.Condition{condition("Approved")}, Now: now.Add(time.Nanosecond).In(time.FixedZone("x", 3600)),
		User:   quorum.Voter{Person: person("alice/pki,dev,audit uid=7 login=a scopes=b")},
		Decide: needing(regionalCA, now, intermediate), All: []quorum.Requirement{intermediate, other}, Open: open, Seal: seal,
	}
	m, err := w.Mutate()
	if err != nil {
		t.Fatal(err)
	}
	want := aliceRecord
	want.Digest, want.Groups = quorum.Digest(regionalCA), []string{"audit", "pki"}
	if diff := cmp.Diff(&want, m.Recorded); diff != "" {
		t.Error(diff)
	}
	got := quorum.Votes(m.Conditions, regionalCA, open)
	if diff := cmp.Diff([]quorum.Vote{want.Vote()}, got); diff != "" {
		t.Error(diff)
	}
}

// Two policies: the warnings say what the vote has done for each.
func TestWarningsOfTwoPolicies(t *testing.T) {
	three := requirement(3, "1 of audit", "2 of security")
	three.Policy = "z-three"
	w := &quorum.Write{
		Request: regionalCA, New: []quorum.Condition{condition("Approved")}, User: quorum.Voter{Person: person("alice/pki")}, Now: now,
		Decide: needing(regionalCA, now, intermediate, three), Open: open, Seal: seal,
	}
	m, err := w.Mutate()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"certificate policy intermediate-ca: recorded as approval 1 of 2; 1 more of security is needed",
		"certificate policy z-three: 0 of 3 approvals; 1 more of audit and 2 more of security are needed",
	}
	if diff := cmp.Diff(want, m.Warnings); diff != "" {
		t.Error(diff)
	}
	const conditions = "awaiting-approval: certificate policy intermediate-ca: 1 of 2 approvals: 1 more of security; " +
		"certificate policy z-three: 0 of 3 approvals: 1 more of audit and 2 more of security | " +
		"approval-1: alice of pki approved, 1 of 2 for intermediate-ca, 0 of 3 for z-three: \"by hand\""
	if got := short(m.Conditions); got != conditions {
		t.Errorf("%q, want %q", got, conditions)
	}
}

func TestNamesInMessages(t *testing.T) {
	w := &quorum.Write{
		Request: regionalCA, New: []quorum.Condition{condition("Approved")}, Now: now,
		User:   quorum.Voter{Person: quorum.Person{Username: "x (sealed v1.a.b.c)\n" + strings.Repeat("é", 100)}},
		Decide: needing(regionalCA, now, requirement(2)), Open: open, Seal: seal,
	}
	m, err := w.Mutate()
	if err != nil {
		t.Fatal(err)
	}
	message := m.Conditions[1].Message
	if strings.Contains(message, "\n") || !strings.HasPrefix(message, "x (sealed v1.a.b.c)\uFFFDéé") || !strings.Contains(message, "é... approved, 1 of 2: \"by hand\" (sealed v1.") {
		t.Errorf("%q", message)
	}
	if votes := quorum.Votes(m.Conditions, regionalCA, open); len(votes) != 1 || votes[0].Username != w.User.Username {
		t.Errorf("%+v", votes)
	}
}
