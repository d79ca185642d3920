package quorum_test

import (
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

func TestMayVote(t *testing.T) {
	thrice := changed(requirement(3, "2 of @ann,@bea,@cleo"), func(p *v1alpha1.PeopleRequirement) { p.ServiceAccounts = true })
	tests := []struct {
		reason       string
		reqs         []quorum.Requirement
		votes        []quorum.Vote
		voter        string
		impersonator string
		// want is empty if the voter may vote.
		want string
	}{
		{reason: "one of a group", reqs: reqs(officers), voter: "alice/pki"},
		{reason: "one of no group", reqs: reqs(officers), voter: "alice/dev",
			want: "NotAmongApprovers: your approval does not count: you are in none of the groups pki, security"},
		{reason: "one of a group that is complete", reqs: reqs(officers), votes: votes("alice/pki"), voter: "anna/pki",
			want: "NotAmongApprovers: your approval does not count: you are not in the group security"},
		{reason: "named", reqs: reqs(requirement(2, "2 of @ann,@bea")), voter: "alice",
			want: "NotAmongApprovers: your approval does not count: you are none of the users ann, bea"},
		{reason: "named or in a group", reqs: reqs(requirement(2, "1 of @ann", "1 of pki")), voter: "alice",
			want: "NotAmongApprovers: your approval does not count: you are not in the group pki and not the user ann"},
		{reason: "many groups", reqs: reqs(requirement(2, "2 of a,b,c,d,e,f,g,h")), voter: "alice",
			want: "NotAmongApprovers: your approval does not count: you are in none of the groups a, b, c, d, e, 3 others"},
		{reason: "twice", reqs: reqs(officers), votes: votes("alice/pki ago=1h"), voter: "alice/pki",
			want: "AlreadyApproved: you have approved already; 1 more of security is needed"},
		{reason: "twice, and now in the other group too", reqs: reqs(officers), votes: votes("alice/pki ago=1h"), voter: "alice/security",
			want: "AlreadyApproved: you have approved already; 1 more of security is needed"},
		{reason: "twice, under another policy", reqs: []quorum.Requirement{officers, requirement(2)}, votes: votes("alice ago=1h"), voter: "alice",
			want: "AlreadyApproved: you have approved already; 1 more of pki, 1 more of security and 1 more are needed"},
		{reason: "again, as the first did not count", reqs: reqs(officers), votes: votes("alice/dev ago=1h"), voter: "alice/security"},
		{reason: "again, and neither counts", reqs: reqs(officers), votes: votes("alice/dev ago=1h"), voter: "alice/dev",
			want: "NotAmongApprovers: your approval does not count: you are in none of the groups pki, security"},
		{reason: "again, after validFor", reqs: reqs(briefly), votes: votes("alice ago=1h"), voter: "alice"},
		{reason: "the requester", reqs: reqs(officers), voter: "requester/pki", want: "SelfApproval: your approval does not count: requesters cannot approve their own requests"},
		{reason: "the requester's other login", reqs: reqs(byLogin), voter: "r2 login=r", want: "SelfApproval: your approval does not count: requesters cannot approve their own requests"},
		{reason: "a service account", reqs: reqs(officers), voter: "system:serviceaccount:a:b/pki",
			want: "NotAPerson: your approval does not count: service accounts do not count as people"},
		{reason: "a service account where these count", reqs: reqs(accounts), voter: "system:serviceaccount:a:b"},
		{reason: "a service account where these count for one policy", reqs: []quorum.Requirement{officers, thrice}, voter: "system:serviceaccount:a:b"},
		{reason: "a node", reqs: reqs(accounts), voter: "system:node:n1", want: "NotAPerson: your approval does not count: a node is not a person"},
		{reason: "anonymous", reqs: reqs(accounts), voter: "system:anonymous", want: "NotAPerson: your approval does not count: anonymous users cannot be told apart"},
		{reason: "impersonated", reqs: reqs(officers), voter: "alice/pki", impersonator: "root",
			want: "Impersonated: your approval does not count: root impersonates alice, and people approve in their own name"},
		{reason: "without a login", reqs: reqs(byLogin), voter: "alice",
			want: `NotIdentified: your approval does not count: people are told apart by the extra value "login", and the user does not have exactly one`},
		{reason: "enough", reqs: reqs(officers), votes: votes("a/pki", "b/security"), voter: "c/pki", want: "NotNeeded: enough people have approved"},
		{reason: "for one of two policies", reqs: []quorum.Requirement{officers, requirement(3)}, votes: votes("a/pki", "b/security"), voter: "c"},
	}
	for _, tc := range tests {
		voter := quorum.Voter{Person: person(tc.voter), Impersonator: tc.impersonator}
		got := ""
		if refusal := quorum.MayVote(tc.reqs, tc.votes, voter, person("requester login=r"), now); refusal != nil {
			got = refusal.Reason + ": " + refusal.Message
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

func reqs(r quorum.Requirement) []quorum.Requirement { return []quorum.Requirement{r} }
