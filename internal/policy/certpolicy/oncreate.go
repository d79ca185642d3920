package certpolicy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// IssuesOnCreate reports whether requests for a signer that the policy approves are
// approved and signed within the call that creates them.
func (p *Policy) IssuesOnCreate(signerName string) bool {
	var a v1alpha1.PolicyApproval
	if p.spec.Approval != nil {
		a = *p.spec.Approval
	}
	switch {
	case p.spec.Effect == v1alpha1.PolicyLimit || cmp.Or(a.Mode, v1alpha1.ApproveAutomatic) != v1alpha1.ApproveAutomatic:
		return false
	case a.IssueOnCreate != nil:
		return *a.IssueOnCreate
	}
	return !strings.HasPrefix(signerName, "kubernetes.io/")
}

// IssuesOnCreate reports whether an enforced policy that can apply to requests of a
// kind for a signer issues on create.
func (s *Set) IssuesOnCreate(kind v1alpha1.RequestKind, signerName string) bool {
	return slices.ContainsFunc(s.candidates(kind, signerName), func(p *Policy) bool { return enforced(p) && p.IssuesOnCreate(signerName) })
}
