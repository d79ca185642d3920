package policies

import (
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Ruling is what the CertificateRequestPolicies of approver-policy say about a
// CertificateRequest.
type Ruling struct {
	crp.Result
	// Err is why they could not be evaluated, nil if they were.
	Err error
}

// requestPolicyPrefix begins the names of CertificateRequestPolicies that allow
// a request.
const requestPolicyPrefix = approverpolicy.Resource + "." + approverpolicy.GroupName + "/"

func isRequestPolicy(p *v1alpha1.DecidingPolicy) bool {
	return p != nil && strings.HasPrefix(p.Name, requestPolicyPrefix)
}

// Combine decides by CertificatePolicies and by what CertificateRequestPolicies
// say, which is nil if they are not enforced: both must be content. One of
// these that approves the request is what an Allow policy is: a DenyRest does
// not deny the request, and Limits hold for it.
func Combine(set *certpolicy.Set, in certpolicy.Input, ruling *Ruling) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
	if ruling == nil {
		return set.DecideVotes(in)
	}
	approves := ruling.Err == nil && ruling.Outcome == crp.Approve
	if approves {
		in.Facts.BuiltIn = certpolicy.Known(new(requestPolicyPrefix + ruling.Policy))
	}
	d, requirements := set.DecideVotes(in)
	switch {
	case d.Outcome == v1alpha1.OutcomeDeny && d.Reason != certpolicy.ReasonNotAllowed:
	case approves && d.Outcome == v1alpha1.OutcomeLeave: // it is whom the request is left to
		d.Outcome, d.Policy = v1alpha1.OutcomeApprove, &v1alpha1.DecidingPolicy{Name: *in.Facts.BuiltIn.Value}
	case ruling.Err != nil:
		ruling.replace(d, v1alpha1.OutcomeWait, certpolicy.ReasonUnavailable, "the CertificateRequestPolicies could not be evaluated")
	case ruling.Outcome == crp.Undecided:
		ruling.replace(d, v1alpha1.OutcomeWait, certpolicy.ReasonFactMissing, "CertificateRequestPolicy "+ruling.Nearest.Policy+": "+ruling.Nearest.Miss.Message)
	case ruling.Outcome == crp.Deny:
		ruling.replace(d, v1alpha1.OutcomeDeny, crp.Reason, ruling.Message)
	}
	return d, requirements
}

// replace puts what CertificateRequestPolicies say in the place of what
// CertificatePolicies say.
func (*Ruling) replace(d *v1alpha1.PolicyDecision, outcome v1alpha1.DecisionOutcome, reason, message string) {
	d.Outcome, d.Reason, d.Message = outcome, reason, message
	d.Policy, d.People = nil, nil
}

// decides reports whether a decision is that of the CertificateRequestPolicies.
func (r *Ruling) decides(d *v1alpha1.PolicyDecision) bool {
	switch {
	case r == nil || r.Err != nil:
		return false
	case d.Outcome == v1alpha1.OutcomeApprove:
		return isRequestPolicy(d.Policy)
	}
	return d.Outcome == v1alpha1.OutcomeDeny && d.Reason == crp.Reason
}
