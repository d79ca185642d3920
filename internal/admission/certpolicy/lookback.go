package certpolicy

import (
	"context"
	"fmt"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	policy "github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// namedRefusals is how many requests that a policy would refuse the warning names.
const namedRefusals = 3

// lookBack warns of a policy that would refuse requests approved in the last hour. The
// warning contains no values of requests, because authors of policies may not see all
// requests.
func (c *Checks) lookBack(ctx context.Context, p *policy.Policy, spec *v1alpha1.CertificatePolicySpec) []string {
	if spec.EffectiveMode() != v1alpha1.PolicyEnforce {
		return nil
	}
	found := c.policies.Advice().LookBack(ctx, p)
	if len(found.Refused) == 0 {
		return nil
	}
	var named []string
	for _, d := range found.Refused[:min(namedRefusals, len(found.Refused))] {
		text := fmt.Sprintf("%s %s", d.Request.Kind, request.FullName(d.Request.Namespace, d.Request.Name))
		if len(d.Violations) > 0 {
			text += " (" + d.Violations[0].At + ")"
		}
		named = append(named, text)
	}
	if more := len(found.Refused) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return []string{cutWarning(fmt.Sprintf("spec: would refuse %d of %d requests that were approved in the last hour: %s", len(found.Refused), found.Approved, strings.Join(named, ", ")))}
}
