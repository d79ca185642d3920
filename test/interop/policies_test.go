package interop

import (
	"bytes"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// twoPeople lets two people get certificates for clients whose names begin with
// good-, and guards all signers.
const twoPeople = `
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: clients}
spec:
  effect: Allow
  match: {kinds: [CertificateSigningRequest], signers: [kubernetes.io/kube-apiserver-client]}
  certificate:
    subject: {commonName: {patterns: [good-*]}}
    usages: {allowed: [digital signature, key encipherment, client auth]}
  approval: {mode: People, people: {count: 2, from: [{groups: [security], count: 1}]}}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: strong-keys}
spec:
  effect: Limit
  match: {signers: ["kubernetes.io/*"]}
  certificate: {keys: {types: [ECDSAP256, ECDSAP384, RSA2048, RSA3072, RSA4096]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approvers}
rules:
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [get]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/approval], verbs: [update]}
- {apiGroups: [certificates.k8s.io], resources: [signers], verbs: [approve], resourceNames: [kubernetes.io/kube-apiserver-client]}
`

// Policies hold in a real kube-apiserver: what they forbid is not stored, two
// people approve with kubectl, and what gets past the webhook is not signed.
func TestPoliciesInCluster(t *testing.T) {
	c := startCluster(t, allOfCertManager)
	address := freeAddress(t)
	controllers := c.controllers(t, allOfCertManager, "--webhook-bind-address", address)
	eventually(t, "the API knows whom to trust", func() bool { return len(c.bundles(t)) == len(webhookKinds) })
	c.reachWebhook(t, address)
	eventually(t, "the certificate has the new address", func() bool { return serves(t, address).VerifyHostname("127.0.0.1") == nil })
	c.certplane(t, twoPeople, "kubectl", "--kubeconfig", c.admin, "apply", "-f", "-")
	for _, user := range []string{"alice", "bob"} {
		c.bind(t, "approvers", user)
	}

	t.Run("what a policy forbids is not stored", func(t *testing.T) {
		var refused answer
		eventually(t, "the policy is in force", func() bool {
			refused = c.do(t, call{method: http.MethodPost, path: csrs, body: c.clientRequest(t, "bad")})
			return refused.Code != http.StatusCreated || !c.removed(t, "bad")
		})
		const want = `certificate policy clients: subject.commonName "bad"`
		if message, _ := refused.object(t)["message"].(string); refused.Code != http.StatusForbidden || !strings.Contains(message, want) {
			t.Errorf("%d %s\nwant %s", refused.Code, message, want)
		}
	})
	t.Run("two people approve", func(t *testing.T) {
		c.submit(t, call{body: c.clientRequest(t, "good-1")})
		if said, err := c.as(t, "alice", "developers", "certificate", "approve", "good-1"); err != nil || !strings.Contains(said, "recorded as approval 1 of 2; 1 more of security is needed") {
			t.Errorf("the first one is told %q, %v", said, err)
		}
		if c.decided(t, "good-1", "Approved") != "" {
			t.Fatal("one person has approved alone")
		}
		if said, err := c.as(t, "alice", "security", "certificate", "approve", "good-1"); err != nil || !strings.Contains(said, "you have approved already") {
			t.Errorf("once more, the first one is told %q, %v", said, err)
		}
		if said, err := c.as(t, "bob", "security", "certificate", "approve", "good-1"); err != nil {
			t.Fatalf("the second one is told %q, %v", said, err)
		}
		if leaf := c.issued(t, "good-1"); leaf.Subject.CommonName != "good-1" {
			t.Errorf("issued for %s", leaf.Subject)
		}
	})
	for _, way := range c.waysPast("good-2", "good-3") {
		t.Run("what gets past the webhook is not signed: "+way.what, func(t *testing.T) {
			c.submit(t, call{body: c.clientRequest(t, way.request)})
			eventually(t, "one person can approve alone", func() bool {
				way.take(t)
				said, err := c.as(t, "alice", "security", "certificate", "approve", way.request)
				if err != nil {
					t.Logf("%s: %v", said, err)
				}
				return c.decided(t, way.request, "Approved") != ""
			})
			eventually(t, "the request has failed", func() bool { return c.decided(t, way.request, "Failed") != "" })
			if reason := c.decided(t, way.request, "Failed"); reason != "ApprovalsMissing" || issued(t, c.apiServer, way.request) != "" {
				t.Errorf("it has failed because of %s, and has the certificate %q", reason, issued(t, c.apiServer, way.request))
			}
		})
	}
	if said := controllers.output.tail(1 << 20); strings.Contains(said, "forbidden") && !strings.Contains(said, "certificaterequests-approver") {
		t.Errorf("a right is missing:\n%s", said)
	}
}

func (c *cluster) clientRequest(t *testing.T, name string) map[string]any {
	t.Helper()
	return manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", name, "--name", name)
}

// as runs kubectl as a user of a group, and returns what it says.
func (c *cluster) as(t *testing.T, user, group string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.program, append([]string{"kubectl", "--kubeconfig", c.admin, "--as", user, "--as-group", group}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// decided returns the reason of a condition of a request, "" if it has none.
func (c *cluster) decided(t *testing.T, name, condition string) string {
	t.Helper()
	status, _ := c.do(t, call{method: http.MethodGet, path: csrs + "/" + name}).object(t)["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, each := range conditions {
		if one := each.(map[string]any); one["type"] == condition {
			return one["reason"].(string)
		}
	}
	return ""
}

// removed deletes a request that should not have been stored, and reports whether
// it is gone.
func (c *cluster) removed(t *testing.T, name string) bool {
	t.Helper()
	return c.do(t, call{method: http.MethodDelete, path: csrs + "/" + name}).Code == http.StatusOK
}
