package explain

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// An order for a name in a lab has a next step.
func TestAddressSteps(t *testing.T) {
	of := func(state, problem string) []ACMEAuthorization {
		return []ACMEAuthorization{{Identifier: "dns web.lab", State: state, Challenges: []ACMEChallenge{{Type: "http-01", Error: problem}}}}
	}
	q := Query{Kubectl: []string{"kubectl"}}
	steps := addressSteps(q, "corp", of(rfc8555.StateInvalid, "connection: address not permitted"))
	if got := typed(steps); len(steps) != 1 || !strings.Contains(got, "spec.challenges.networks.allow") || !strings.Contains(got, "acme.certplane.dev/allow-local") || !strings.Contains(got, "kubectl edit acmeendpoint corp") {
		t.Errorf("steps: %s", got)
	}
	for _, other := range [][]ACMEAuthorization{of(rfc8555.StateValid, "address not permitted"), of(rfc8555.StateInvalid, "connection: refused"), nil} {
		if steps := addressSteps(q, "corp", other); steps != nil {
			t.Errorf("%+v: %+v", other, steps)
		}
	}
}
