package interop

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// requestPolicy has approver-policy permit the names that do not end in -no.
const requestPolicy = `
apiVersion: v1
kind: Namespace
metadata: {name: approver-policy}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: approver-policy, namespace: approver-policy}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approver-policy}
rules:
- {apiGroups: [policy.cert-manager.io], resources: [certificaterequestpolicies], verbs: [list, watch, use]}
- {apiGroups: [policy.cert-manager.io], resources: [certificaterequestpolicies/status], verbs: [patch]}
- {apiGroups: [cert-manager.io], resources: [certificaterequests], verbs: [list, watch]}
- {apiGroups: [cert-manager.io], resources: [certificaterequests/status], verbs: [patch]}
- {apiGroups: [cert-manager.io], resources: [signers], verbs: [approve]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, clusterroles, rolebindings, clusterrolebindings], verbs: [list, watch]}
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create, patch]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update]}
---
apiVersion: policy.cert-manager.io/v1alpha1
kind: CertificateRequestPolicy
metadata: {name: most}
spec:
  allowed:
    commonName: {value: "*", validations: [{rule: "!self.endsWith('-no')"}]}
  selector: {issuerRef: {}}
`

// The program approver-policy decides about the same requests in a real
// kube-apiserver. It approves nothing that the policies of certplane forbid.
func TestApproverPolicyInCluster(t *testing.T) {
	program := peer(t, "approver-policy")
	c := startCluster(t, allOfCertManager)
	c.kubectl(t, "apply", "-f", "../../internal/generated/crds/optional/policy.cert-manager.io_certificaterequestpolicies.yaml")
	c.kubectl(t, "wait", "--for=condition=Established", "crd/certificaterequestpolicies.policy.cert-manager.io", "--timeout=60s")
	c.certplane(t, requestPolicy, "kubectl", "--kubeconfig", c.admin, "apply", "-f", "-")
	c.bind(t, "approver-policy", "system:serviceaccount:approver-policy:approver-policy")
	// What is refused when it is created cannot be decided about.
	config := filepath.Join(c.dir, "controllers.yaml")
	write(t, config, "apiVersion: config.certplane.dev/v1alpha1\nkind: ControllersConfiguration\npolicy: {createChecks: false}\n")
	c.guard(t, "--config", config)

	token := strings.TrimSpace(c.kubectl(t, "create", "token", "approver-policy", "-n", "approver-policy"))
	_, port := splitAddress(t, freeAddress(t))
	approver := run(t, c.dir, program, "--kubeconfig", c.kubeconfig(t, "approver-policy", map[string]any{"token": token}),
		"--leader-election-namespace", "approver-policy", "--webhook-ca-secret-namespace", "approver-policy", "--webhook-host", "127.0.0.1", "--webhook-port", port,
		"--metrics-bind-address", "0", "--readiness-probe-bind-address", "127.0.0.1:0", "--log-format", "json")
	eventually(t, "approver-policy works", func() bool {
		return c.has(t, "/apis/policy.cert-manager.io/v1alpha1/certificaterequestpolicies/most", "Ready")
	})

	// How requests end; "" stays open, as one of the two may not approve and the
	// other does not deny.
	ends := map[string][]string{
		"open good yes": {"Approved"}, "open good no": {"Approved", "Denied"}, "open bad yes": {"Denied"}, "open bad no": {"Denied"},
		"guarded good yes": {""}, "guarded good no": {"Denied"}, "guarded bad yes": {"Denied"}, "guarded bad no": {"Denied"},
	}
	expected := map[string][]string{}
	for i := range 10 {
		for kind, end := range ends {
			words := strings.Fields(kind)
			name := fmt.Sprintf("%s-%s-%d-%s", words[1], words[0], i, words[2])
			expected[name] = end
			if made := c.create(t, "", newCertificateRequest(t, name, words[0])); made.Code != http.StatusCreated {
				t.Fatalf("%+v", made)
			}
		}
	}
	for name, ends := range expected {
		var end string
		eventually(t, name+" is settled", func() bool {
			if end = c.endOf(t, name); end != "" || ends[0] != "" {
				return end != ""
			}
			for line := range strings.Lines(approver.output.tail(1 << 20)) {
				if strings.Contains(line, `"`+name+`"`) && strings.Contains(line, "service accounts do not count as people") {
					return true
				}
			}
			return false
		})
		if end = c.endOf(t, name); !strings.Contains(" "+strings.Join(ends, " ")+" ", " "+end+" ") {
			t.Errorf("%s is %q, want one of %q", name, end, ends)
		}
	}
	eventually(t, "certplane tells of the other approver", func() bool {
		return strings.Contains(c.kubectl(t, "get", "events", "-n", "approver-policy", "-o", "jsonpath={.items[*].reason}"), "OtherApprover")
	})
	if said := c.kubectl(t, "get", "leases", "-n", "approver-policy", "policy.cert-manager.io", "-o", "jsonpath={.spec.holderIdentity}"); said == "" ||
		!strings.Contains(c.certplane(t, "", "policy", "status", "--kubeconfig", c.admin), "approver-policy also runs: "+said) {
		t.Errorf("the status does not name %q", said)
	}
}

// endOf returns how a CertificateRequest is decided, "" if it is not.
func (c *cluster) endOf(t *testing.T, name string) string {
	t.Helper()
	for _, kind := range []string{"Approved", "Denied"} {
		if c.conditionOf(t, name, kind) != nil {
			return kind
		}
	}
	return ""
}
