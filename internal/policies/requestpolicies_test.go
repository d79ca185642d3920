package policies_test

import (
	"errors"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/request"
)

// CertificateRequestPolicies that approve are one more Allow policy.
func TestBesideRequestPolicies(t *testing.T) {
	const (
		none  = ""
		allow = v1alpha1.PolicyAllow
		limit = v1alpha1.PolicyLimit
		rest  = v1alpha1.PolicyDenyRest
	)
	approves := &crp.Decision{Outcome: v1alpha1.OutcomeApprove, Policy: "shop"}
	denies := &crp.Decision{Outcome: v1alpha1.OutcomeDeny, Message: "No policy approved this request: ..."}
	silent := &crp.Decision{Outcome: v1alpha1.OutcomeLeave}
	undecided := &crp.Decision{Outcome: v1alpha1.OutcomeWait, Nearest: &crp.Considered{Policy: "new", Miss: &crp.Miss{Message: "the policy has no Ready condition yet"}}}
	failed := &crp.Decision{Err: errors.New("no answer")}
	for _, tc := range []struct {
		reason string
		effect v1alpha1.PolicyEffect
		zone   string
		mode   v1alpha1.PolicyApprovalMode
		ruling *crp.Decision
		want   v1alpha1.DecisionOutcome
		why    string
		by     string
	}{
		{reason: "not enforced", effect: rest, want: v1alpha1.OutcomeDeny, why: "NotAllowed", by: "ours"},
		{reason: "only these approve", effect: none, ruling: approves, want: v1alpha1.OutcomeApprove, by: "certificaterequestpolicies.policy.cert-manager.io/shop"},
		{reason: "only these deny", effect: none, ruling: denies, want: v1alpha1.OutcomeDeny, why: crp.Reason},
		{reason: "nobody says anything", effect: none, ruling: silent, want: v1alpha1.OutcomeLeave},
		{reason: "one is not ready yet", effect: none, ruling: undecided, want: v1alpha1.OutcomeWait, why: "FactMissing"},
		{reason: "a lookup failed", effect: none, ruling: failed, want: v1alpha1.OutcomeWait, why: "PolicyUnavailable"},
		{reason: "both allow", effect: allow, zone: "example.com", ruling: approves, want: v1alpha1.OutcomeApprove, by: "ours"},
		{reason: "only ours allows", effect: allow, zone: "example.com", ruling: silent, want: v1alpha1.OutcomeApprove, by: "ours"},
		{reason: "ours allows, these deny", effect: allow, zone: "example.com", ruling: denies, want: v1alpha1.OutcomeApprove, by: "ours"},
		{reason: "ours allows, these wait", effect: allow, zone: "example.com", ruling: undecided, want: v1alpha1.OutcomeApprove, by: "ours"},
		{reason: "ours is violated, these approve", effect: allow, zone: "example.org", ruling: approves, want: v1alpha1.OutcomeApprove, by: "certificaterequestpolicies.policy.cert-manager.io/shop"},
		{reason: "ours is violated, these deny", effect: allow, zone: "example.org", ruling: denies, want: v1alpha1.OutcomeDeny, why: "NameNotPermitted", by: "ours"},
		{reason: "ours is violated, these wait", effect: allow, zone: "example.org", ruling: undecided, want: v1alpha1.OutcomeWait, why: "FactMissing"},
		{reason: "ours needs people, these do not", effect: allow, zone: "example.com", mode: v1alpha1.ApprovePeople, ruling: approves, want: v1alpha1.OutcomeApprove, by: "certificaterequestpolicies.policy.cert-manager.io/shop"},
		{reason: "people of ours allow what these deny", effect: allow, zone: "example.com", mode: v1alpha1.ApprovePeople, ruling: denies, want: v1alpha1.OutcomeNeedPeople, why: "ApprovalsMissing"},
		{reason: "ours leaves it to others, who approve", effect: allow, zone: "example.com", mode: v1alpha1.ApproveLeave, ruling: approves, want: v1alpha1.OutcomeApprove, by: "certificaterequestpolicies.policy.cert-manager.io/shop"},
		{reason: "ours leaves it to others, who deny", effect: allow, zone: "example.com", mode: v1alpha1.ApproveLeave, ruling: denies, want: v1alpha1.OutcomeDeny, why: crp.Reason},
		{reason: "ours leaves it to others, who say nothing", effect: allow, zone: "example.com", mode: v1alpha1.ApproveLeave, ruling: silent, want: v1alpha1.OutcomeLeave},
		{reason: "a Limit needs people, these approve", effect: limit, zone: "example.com", mode: v1alpha1.ApprovePeople, ruling: approves, want: v1alpha1.OutcomeNeedPeople, why: "ApprovalsMissing"},
		{reason: "a Limit needs people, these deny", effect: limit, zone: "example.com", mode: v1alpha1.ApprovePeople, ruling: denies, want: v1alpha1.OutcomeDeny, why: crp.Reason},
		{reason: "a Limit holds", effect: limit, zone: "example.com", ruling: approves, want: v1alpha1.OutcomeApprove, by: "certificaterequestpolicies.policy.cert-manager.io/shop"},
		{reason: "a Limit is violated", effect: limit, zone: "example.org", ruling: approves, want: v1alpha1.OutcomeDeny, why: "NameNotPermitted", by: "ours"},
		{reason: "a Limit is violated, and a lookup failed", effect: limit, zone: "example.org", ruling: failed, want: v1alpha1.OutcomeDeny, why: "NameNotPermitted", by: "ours"},
		{reason: "the rest is denied, but this is allowed", effect: rest, ruling: approves, want: v1alpha1.OutcomeApprove, by: "certificaterequestpolicies.policy.cert-manager.io/shop"},
		{reason: "the rest is denied, and these say why", effect: rest, ruling: denies, want: v1alpha1.OutcomeDeny, why: crp.Reason},
		{reason: "the rest is denied", effect: rest, ruling: silent, want: v1alpha1.OutcomeDeny, why: "NotAllowed", by: "ours"},
		{reason: "nothing is denied for good before all is known", effect: rest, ruling: failed, want: v1alpha1.OutcomeWait, why: "PolicyUnavailable"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var all []*v1alpha1.CertificatePolicy
			if tc.effect != none {
				all = append(all, ours(tc.effect, tc.zone, tc.mode))
			}
			in := certpolicy.Input{Request: asked(t)}
			in.Facts.RequestPolicies = policies.RequestPoliciesFact(tc.ruling)
			d := certpolicy.NewSet(all, nil).Decide(in)
			by := ""
			if d.Policy != nil {
				by = d.Policy.Name
			}
			if d.Outcome != tc.want || d.Reason != tc.why || tc.by != "" && by != tc.by {
				t.Errorf("%s (%s) by %q: %s", d.Outcome, d.Reason, by, d.Message)
			}
		})
	}
}

// ours returns a CertificatePolicy for names in a zone.
func ours(effect v1alpha1.PolicyEffect, zone string, mode v1alpha1.PolicyApprovalMode) *v1alpha1.CertificatePolicy {
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: effect, Match: v1alpha1.PolicyMatch{Signers: []string{"clusterissuers.cert-manager.io/own"}, Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateRequests}},
	}}
	if zone != "" {
		p.Spec.Certificate = &v1alpha1.CertificateConditions{Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{zone}}}}
	}
	if effect == v1alpha1.PolicyAllow {
		p.Spec.Certificate.Usages = &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment"}}
	}
	if mode != "" {
		p.Spec.Approval = &v1alpha1.PolicyApproval{Mode: mode}
	}
	if mode == v1alpha1.ApprovePeople {
		p.Spec.Approval.People = &v1alpha1.PeopleRequirement{Count: 2, From: []v1alpha1.PeopleFrom{{Groups: []string{"officers"}, Count: 2}}}
	}
	return p
}

func asked(t *testing.T) request.Request {
	t.Helper()
	csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{"www.example.com"}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return request.FromCertificateRequest(&cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: "own"}, Request: csr},
	})
}
