package rights

import (
	"slices"
	"testing"
)

// Roles of people contain a right to no signer: what they do not need, they do
// not get along with the rest.
func TestPeopleRolesHaveNoSigner(t *testing.T) {
	for _, role := range peopleRoles() {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "signers") && !slices.Equal(rule.APIGroups, []string{certplane}) {
				t.Errorf("%s: %v", role.Name, rule)
			}
		}
		if role.Doc == "" || role.Joins != "" || len(role.Rules) == 0 {
			t.Errorf("%s: %+v", role.Name, role)
		}
	}
}

func TestTasks(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		verb    string
		kind    Kind
		objects int
		signers string
	}{
		{"a request is read by whoever makes it, and no signer is asked", TaskRequest, SigningRequests, 1, ""},
		{"requests are approved by a subresource", TaskApprove, SigningRequests, 2, certificates},
		{"those to issuers, by their status", TaskApprove, IssuerRequests, 2, certManager},
		{"pods' requests are signed", TaskSign, PodRequests, 2, certificates},
		{"no right to sign for an issuer exists", TaskSign, IssuerRequests, 2, ""},
		{"bundles are read and written", TaskAttest, TrustBundles, 1, certificates},
		{"policies need not be read", TaskUse, Policies, 1, ""},
		{"endpoints neither", TaskUse, Endpoints, 1, ""},
		{"accounts are approved by a right to their endpoint", TaskApprove, Endpoints, 1, ""},
	} {
		task, ok := FindTask(tt.verb, tt.kind)
		if got := len(task.OnObjects()); !ok || got != tt.objects || task.Signers != tt.signers {
			t.Errorf("%s: %t, %v, signers of %q", tt.reason, ok, task.OnObjects(), task.Signers)
		}
	}
	for verb, want := range map[string][3]bool{ // policies, endpoints, requests
		TaskUse: {true, true, false}, TaskOverride: {true, false, false}, TaskAutoApprove: {false, true, false},
		TaskPreauthorize: {false, true, false}, TaskApprove: {false, true, true}, TaskAttest: {false, false, true},
	} {
		if got := [3]bool{OnPolicies(verb), OnEndpoints(verb), OnRequests(verb)}; got != want {
			t.Errorf("%s is about policies, endpoints, requests: %v, want %v", verb, got, want)
		}
	}
	if _, ok := FindTask(TaskApprove, PodRequests); ok {
		t.Error("requests of pods are not approved")
	}
}

func TestKindIs(t *testing.T) {
	for name, want := range map[string]bool{"CertificateSigningRequest": true, "csr": true, "certificatesigningrequests": true, "CSR": true, "cr": false, "": false} {
		if got := SigningRequests.Is(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
