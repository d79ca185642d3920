package explain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Who has to approve is what the server has counted last: explain cannot verify
// approvals.
func TestPeopleText(t *testing.T) {
	undecided := &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeNeedPeople, Message: "0 of 2 approvals"}
	for _, tc := range []struct {
		reason     string
		conditions []quorum.Condition
		want       string
	}{
		{"nobody has counted yet", nil, "people must approve it: 0 of 2 approvals"},
		{
			"one has approved", []quorum.Condition{{Type: quorum.VoteType(1), Message: "x"}, {Type: quorum.AwaitingApproval, Message: "1 of 2 approvals: 1 more of security"}},
			"people must approve it: 1 of 2 approvals: 1 more of security",
		},
		{
			"all have approved", []quorum.Condition{{Type: string(certificatesv1.CertificateApproved), Message: "x"}},
			"people had to approve it, and it is approved: the signer counts their approvals again",
		},
		{
			"one has overridden it", []quorum.Condition{
				{Type: quorum.VoteType(1), Reason: "Override", Message: `grace overrode two, because: "an outage" (sealed x)`}, {Type: string(certificatesv1.CertificateApproved), Message: "x"},
			},
			`people had to approve it, and it is approved: grace overrode two, because: "an outage"; the signer counts their approvals again`,
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff([]Check{{"policies", Open, tc.want}}, decisionChecks(undecided, tc.conditions)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The first line says how many people a request waits for.
func TestHeadlineOfPeople(t *testing.T) {
	o := outlook{checks: []Check{{"policies", Open, needPeople + "1 of 2 approvals: 1 more of security"}, {"permission", Yes, ""}}}
	if got, want := o.undecided(), "waits for people to approve it: 1 of 2 approvals: 1 more of security"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The sealed record of an approval is not for people to read.
func TestVotesWithoutSeals(t *testing.T) {
	f := newFacts(t)
	f.csr.Status.Conditions = append(f.csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.RequestConditionType(quorum.VoteType(1)), Status: "True", Reason: "Approved", Message: "alice approved, 1 of 2 (sealed v1.k1.e30.c2ln)",
	})
	checks := f.complete().explain().Checks
	if got, want := checks[len(checks)-1], (Check{"certplane.dev/approval-1", Yes, "alice approved, 1 of 2 (Approved)"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
