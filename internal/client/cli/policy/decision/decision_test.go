package decision_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/decision"
)

func TestText(t *testing.T) {
	zone := v1alpha1.PolicyViolation{
		Policy: "web-shop", At: "certificate.names.dns", Reason: "NameNotPermitted", Field: "dnsNames[1]", Value: "www.example.org",
		WouldPass: []string{"a name in shop.example.com"}, Message: "dnsNames[1] is in no zone",
	}
	excepted := zone
	excepted.Exception = "launch"
	for _, tt := range []struct {
		reason string
		d      v1alpha1.PolicyDecision
		want   string
	}{
		{"denied", v1alpha1.PolicyDecision{
			Outcome: "Deny", Reason: "NameNotPermitted", Message: "certificate policy web-shop: no", Violations: []v1alpha1.PolicyViolation{zone},
			Considered: []v1alpha1.ConsideredPolicy{
				{Policy: "strong-keys", Effect: "Limit", Applies: true, Holds: true},
				{Policy: "web-ops", Effect: "Allow", Because: "match.namespaces: shop is not among ops"},
				{Policy: "web-shop", Effect: "Allow", Applies: true, Violations: 1},
			},
			Shadow: []v1alpha1.ShadowDecision{{Policy: "next", Mode: "Shadow", Outcome: "Deny"}, {Policy: "strict", Mode: "Warn", Outcome: "Leave", Differs: true}},
		}, `Deny (NameNotPermitted): certificate policy web-shop: no
  no   web-shop     Allow  certificate.names.dns  dnsNames[1] "www.example.org"; would pass: a name in shop.example.com
  -    web-ops      Allow  match.namespaces       shop is not among ops
  yes  strong-keys  Limit
shadow: next would deny too
warn: strict would leave it
`},
		{"approved with an exception", v1alpha1.PolicyDecision{
			Outcome: "Approve", Policy: &v1alpha1.DecidingPolicy{Name: "web-shop"}, Violations: []v1alpha1.PolicyViolation{excepted},
			Considered: []v1alpha1.ConsideredPolicy{{Policy: "web-shop", Effect: "Allow", Applies: true, Holds: true}},
		}, `Approve: certificate policy web-shop
  yes  web-shop  Allow  certificate.names.dns  excepted by launch: dnsNames[1] "www.example.org"; would pass: a name in shop.example.com
`},
		{"a fact is missing", v1alpha1.PolicyDecision{
			Outcome: "Wait", Reason: "FactMissing", Message: "not known yet: namespaces/shop", Open: []v1alpha1.OpenCondition{{Policy: "web", At: "match", Fact: "namespaces/shop"}},
			Considered: []v1alpha1.ConsideredPolicy{{Policy: "web", Effect: "Allow", Applies: true, Open: 1}},
		}, `Wait (FactMissing): not known yet: namespaces/shop
  ?  web  Allow  match  unknown: namespaces/shop
`},
		{"people", v1alpha1.PolicyDecision{
			Outcome: "NeedPeople", Reason: "ApprovalsMissing", Message: "1 more of security is needed", People: &v1alpha1.PeopleDecision{
				Votes: []v1alpha1.CountedVote{{User: "bob", Counts: true}, {User: "dora", Counts: true, Override: "an outage"}, {User: "eve\n", Because: "it is too old"}},
			},
			Considered: []v1alpha1.ConsideredPolicy{{Policy: "ca", Effect: "Limit", Applies: true, Holds: true}},
		}, `NeedPeople (ApprovalsMissing): 1 more of security is needed
  yes  ca  Limit
approved by bob
approved by dora, overriding policies because: an outage
approved by eve\n, which does not count: it is too old
`},
		{"nobody cares", v1alpha1.PolicyDecision{Outcome: "Leave"}, "Leave: no policy allows or refuses it: any user with the right to approve can\n"},
		{"a policy that is not valid", v1alpha1.PolicyDecision{
			Outcome: "Wait", Reason: "PolicyUnavailable", Message: "it waits",
			Considered: []v1alpha1.ConsideredPolicy{{Policy: "p", Effect: "Limit", Applies: true, Because: "the policy is not valid: x"}},
		}, "Wait (PolicyUnavailable): it waits\n  ?  p  Limit    the policy is not valid: x\n"},
		{"another policy allowed it", v1alpha1.PolicyDecision{
			Outcome: "Approve", Policy: &v1alpha1.DecidingPolicy{Name: "q"},
			Considered: []v1alpha1.ConsideredPolicy{{Policy: "p", Effect: "Allow", Applies: true, Violations: 2}, {Policy: "q", Effect: "Allow", Applies: true, Holds: true}},
		}, "Approve: certificate policy q\n  no   p  Allow    2 of its conditions do not hold\n  yes  q  Allow\n"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, decision.Text(&tt.d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
