package explain

import (
	"context"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/request"
)

// decisionOfRequestPolicies evaluates the CertificateRequestPolicies of approver-policy for
// a request. It returns nil if the API has none, or if the caller may not read them: unknown
// then contains a check.
func decisionOfRequestPolicies(ctx context.Context, api Reader, facts *policies.Facts, req *request.Request) (d *crp.Decision, unknown []Check, err error) {
	if req.Kind != request.CertificateRequests {
		return nil, nil, nil
	}
	var stored approverpolicy.CertificateRequestPolicyList
	switch found, err := list(ctx, api, &stored); {
	case err != nil:
		return nil, nil, err
	case found == Unknown:
		return nil, []Check{{"request policies", Unknown, "you may not list CertificateRequestPolicies"}}, nil
	case found == No, len(stored.Items) == 0:
		return nil, nil, nil
	}
	var all policies.RequestPolicies
	for i := range stored.Items {
		compiled, _ := crp.Compile(&stored.Items[i])
		all = append(all, compiled)
	}
	return facts.Ask(ctx, req, all), nil, nil
}

// requestPolicyCheck starts the names of checks of CertificateRequestPolicies.
const requestPolicyCheck = "request policy "

// hasRequestPolicies reports whether checks include CertificateRequestPolicies: then a
// request is approved only if one of them permits it.
func hasRequestPolicies(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return strings.HasPrefix(c.Name, requestPolicyCheck) })
}

// requestPolicyChecks returns a check for each CertificateRequestPolicy.
func requestPolicyChecks(d *crp.Decision) []Check {
	switch {
	case d == nil:
		return nil
	case d.Err != nil:
		return []Check{{"request policies", Unknown, "cannot be evaluated: " + d.Err.Error()}}
	}
	var checks []Check
	for _, p := range d.Considered {
		name := requestPolicyCheck + p.Policy
		switch {
		case p.Miss != nil:
			checks = append(checks, Check{name, Open, "does not apply: " + p.Miss.String()})
		case p.Violations != "":
			checks = append(checks, Check{name, No, p.Violations})
		default:
			checks = append(checks, Check{name, Yes, "permits all that the request asks for"})
		}
	}
	return checks
}
