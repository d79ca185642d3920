package manifests_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/run/cluster"
)

// A cluster has the policies of approver-policy, and rights to them, only if the
// configuration says so.
func TestRequestPolicies(t *testing.T) {
	const resource = "certificaterequestpolicies"
	if text := write(t, config(withCertManager)); strings.Contains(text, resource) {
		t.Errorf("%s without the setting", resource)
	}
	text := write(t, config(func(c *cluster.Config) {
		withCertManager(c)
		c.Policy.CertificateRequestPolicies = true
	}))
	for what, want := range map[string]string{
		"the definition":       "name: certificaterequestpolicies.policy.cert-manager.io",
		"validation of writes": "    apiVersions:\n    - v1alpha1\n    operations:\n    - CREATE\n    - UPDATE\n    resources:\n    - certificaterequestpolicies\n",
		"reading":              "  - certificaterequestpolicies\n  verbs:\n  - get\n  - list\n  - watch\n",
		"writing the status":   "  - certificaterequestpolicies/status\n  verbs:\n  - patch\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", what)
		}
	}
}
