package policies

import (
	"context"
	"fmt"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/names"
	"github.com/certplane/certplane/internal/policy/request"
)

// NotCounted returns a warning about signers that do not count the people's approvals
// that a policy requires: signers that the policy names in full and that do not sign
// here. It returns "" without such signers. It cannot see which program serves an
// issuer of cert-manager.io.
func (a *Advice) NotCounted(ctx context.Context, spec *v1alpha1.CertificatePolicySpec) string {
	if spec.EffectiveMode() != v1alpha1.PolicyEnforce || spec.Approval == nil || spec.Approval.People == nil {
		return ""
	}
	var elsewhere []string
	for _, pattern := range spec.Match.Signers {
		if a.facts.signsElsewhere(ctx, pattern) {
			elsewhere = append(elsewhere, pattern)
		}
	}
	if len(elsewhere) == 0 {
		return ""
	}
	return fmt.Sprintf("certplane does not sign for %s: a request that is approved past admission, as while its webhook is deleted, gets a certificate there without these people",
		strings.Join(elsewhere, ", "))
}

func (f *Facts) signsElsewhere(ctx context.Context, pattern string) bool {
	glob, err := names.ParseSigner(pattern)
	if err != nil {
		return false
	}
	name, literal := glob.Literal()
	if _, isIssuer := certmanager.ParseSignerName(name); !literal || isIssuer {
		return false
	}
	signer := f.signer(ctx, &request.Request{Kind: v1alpha1.CertificateSigningRequests, SignerName: name})
	return signer.Known && !signer.Value.Ours
}
