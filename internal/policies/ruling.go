package policies

import (
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
)

// Ruling is what the CertificateRequestPolicies of approver-policy say about a
// CertificateRequest.
type Ruling struct {
	crp.Result
	// Err is why they could not be evaluated, nil if they were.
	Err error
}

// Fact returns what a decision reads of r, which may be nil.
func (r *Ruling) Fact() *v1alpha1.RequestPoliciesRuling {
	switch {
	case r == nil:
		return nil
	case r.Err != nil:
		return &v1alpha1.RequestPoliciesRuling{
			Outcome: v1alpha1.OutcomeWait, Reason: certpolicy.ReasonUnavailable, Message: "the CertificateRequestPolicies could not be evaluated",
		}
	}
	switch r.Outcome {
	case crp.Approve:
		return &v1alpha1.RequestPoliciesRuling{Outcome: v1alpha1.OutcomeApprove, Policy: r.Policy}
	case crp.Deny:
		return &v1alpha1.RequestPoliciesRuling{Outcome: v1alpha1.OutcomeDeny, Reason: crp.Reason, Message: r.Message}
	case crp.Undecided:
		return &v1alpha1.RequestPoliciesRuling{
			Outcome: v1alpha1.OutcomeWait, Reason: certpolicy.ReasonFactMissing,
			Message: "CertificateRequestPolicy " + r.Nearest.Policy + ": " + r.Nearest.Miss.Message,
		}
	}
	return &v1alpha1.RequestPoliciesRuling{Outcome: v1alpha1.OutcomeLeave}
}

// decides reports whether a decision is that of the CertificateRequestPolicies.
func (r *Ruling) decides(d *v1alpha1.PolicyDecision) bool {
	switch {
	case r == nil || r.Err != nil:
		return false
	case d.Outcome == v1alpha1.OutcomeApprove:
		return d.Policy != nil && strings.HasPrefix(d.Policy.Name, certpolicy.RequestPolicyPrefix)
	}
	return d.Outcome == v1alpha1.OutcomeDeny && d.Reason == crp.Reason
}
