package certpolicy_test

import (
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// TestPeople: who is missing is told of those policies whose people are
// missing.
func TestPeople(t *testing.T) {
	limit := func(from string) string {
		return `{effect: Limit, match: {signers: ["*"], kinds: [CertificateSigningRequest]}, approval: {mode: People, people: {count: 2, from: [` + from + `]}}}`
	}
	s := set(t, map[string]string{
		"everything": everything, "officers": limit("{groups: [pki], count: 2}"), "security": limit("{groups: [security], count: 2}"),
	})
	vote := func(user, group string) quorum.Vote {
		return quorum.Vote{Username: user, Groups: []string{group}, Time: now.Add(-time.Minute)}
	}
	officers := []quorum.Vote{vote("bob", "pki"), vote("carol", "pki")}
	for _, tc := range []struct {
		reason string
		votes  []quorum.Vote
		want   string
	}{
		{"nobody", nil, "certificate policy officers: 0 of 2 approvals: 2 more of pki; certificate policy security: 0 of 2 approvals: 2 more of security"},
		{"all of one policy", officers, "certificate policy security: 0 of 2 approvals: 2 more of security"},
		{"all but one", append(officers, vote("dora", "security")), "certificate policy security: 1 of 2 approvals: 1 more of security"},
		{"all", append(officers, vote("dora", "security"), vote("ed", "security")), ""},
	} {
		d := decide(t, s, of(csrs).but(func(a *asked) { a.votes = tc.votes }))
		if d.Message != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, d.Message, tc.want)
		}
		if d.People == nil || len(d.People.Votes) != len(tc.votes) || d.People.Met != (tc.want == "") {
			t.Errorf("%s: %+v", tc.reason, d.People)
		}
	}
}

// What nobody can verify is not known: it is neither counted nor missing.
func TestUnverifiedApprovals(t *testing.T) {
	s := set(t, map[string]string{
		"everything": everything,
		"officers":   `{effect: Limit, match: {signers: ["*"], kinds: [CertificateSigningRequest]}, approval: {mode: People, people: {count: 2}}}`,
	})
	d := decide(t, s, of(csrs).but(func(a *asked) { a.sealsUnknown = true }))
	want := "certificate policy officers: not known yet: whether the approvals that it has verify"
	if d.Outcome != v1alpha1.OutcomeWait || d.Reason != certpolicy.ReasonFactMissing || d.Message != want || d.People != nil || len(d.Open) != 1 {
		t.Errorf("%s (%s): %s, open %v", d.Outcome, d.Reason, d.Message, d.Open)
	}
}
