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

// rulingOf returns what the CertificateRequestPolicies of approver-policy say
// about a request; nil if the API has none, or if they may not be read: unknown
// says so.
func rulingOf(ctx context.Context, api Reader, facts *policies.Facts, req *request.Request) (ruling *policies.Ruling, unknown []Check, err error) {
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

// requestPolicyCheck begins the names of checks of CertificateRequestPolicies.
const requestPolicyCheck = "request policy "

// hasRequestPolicies reports whether checks are about CertificateRequestPolicies:
// then no request is approved that none of them permits.
func hasRequestPolicies(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return strings.HasPrefix(c.Name, requestPolicyCheck) })
}

// rulingChecks returns a check for each CertificateRequestPolicy.
func rulingChecks(ruling *policies.Ruling) []Check {
	switch {
	case ruling == nil:
		return nil
	case ruling.Err != nil:
		return []Check{{"request policies", Unknown, "cannot be evaluated: " + ruling.Err.Error()}}
	}
	var checks []Check
	for _, p := range ruling.Considered {
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
