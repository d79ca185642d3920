package policies

import (
	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// MayIssueOnCreate reports whether a request of a kind for a signer can be approved by
// policy within the call that creates it. Approvers need not ask about other requests.
func (p *Policies) MayIssueOnCreate(kind v1alpha1.RequestKind, signerName string) bool {
	if p == nil {
		return false
	}
	current := p.source.current.Load()
	return current != nil && (current.requestPolicies.concern(kind) || current.set.IssuesOnCreate(kind, signerName))
}

// issuesOnCreate reports whether a policy approves that sets issueOnCreate for the
// signer.
func (d *Decision) issuesOnCreate() bool {
	if d.Outcome != v1alpha1.OutcomeApprove {
		return false
	}
	if d.byRequestPolicies() {
		return true // CertificateRequestPolicies have no field for it
	}
	policy := d.Set.Policy(d.Policy.Name)
	return policy != nil && policy.IssuesOnCreate(certpolicy.SignerName(d.Input.Request))
}
