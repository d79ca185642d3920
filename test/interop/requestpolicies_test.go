package interop

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// guardedIssuer has two people approve requests for an issuer of cert-manager.io,
// for names that begin with good-. Another one has only to keep to these names.
const guardedIssuer = `
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: names}
spec:
  effect: Limit
  match: {kinds: [CertificateRequest], signers: [issuers.cert-manager.io/default.guarded, issuers.cert-manager.io/default.open]}
  certificate: {subject: {commonName: {patterns: [good-*]}}}
---
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: two-people}
spec:
  effect: Limit
  match: {kinds: [CertificateRequest], signers: [issuers.cert-manager.io/default.guarded]}
  approval: {mode: People, people: {count: 2}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: request-approvers}
rules:
- {apiGroups: [cert-manager.io], resources: [certificaterequests], verbs: [get]}
- {apiGroups: [cert-manager.io], resources: [certificaterequests/status], verbs: [update]}
- {apiGroups: [cert-manager.io], resources: [signers], verbs: [approve]}
`

// guard starts the controllers and their webhook in a cluster, with policies in
// force.
func (c *cluster) guard(t *testing.T, args ...string) *replica {
	t.Helper()
	address := freeAddress(t)
	controllers := c.controllers(t, append(args, allOfCertManager, "--webhook-bind-address", address)...)
	eventually(t, "the API knows whom to trust", func() bool { return len(c.bundles(t)) == len(webhookKinds) })
	c.reachWebhook(t, address)
	eventually(t, "the certificate has the new address", func() bool { return serves(t, address).VerifyHostname("127.0.0.1") == nil })
	c.certplane(t, guardedIssuer, "kubectl", "--kubeconfig", c.admin, "apply", "-f", "-")
	c.kubectl(t, "wait", "--for=condition=Ready", "certificatepolicies", "--all", "--timeout=60s")
	return controllers
}

// Policies hold for CertificateRequests in a real kube-apiserver, also for those
// that are approved past the webhook.
func TestRequestPoliciesInCluster(t *testing.T) {
	c := startCluster(t, allOfCertManager)
	c.guard(t)
	for _, user := range []string{"alice", "bob"} {
		c.bind(t, "request-approvers", user)
	}
	c.post(t, "issuers", "Issuer", "self", map[string]any{"selfSigned": map[string]any{}})
	c.post(t, "certificates", "Certificate", "root", map[string]any{
		"secretName": "root", "isCA": true, "commonName": "root", "privateKey": map[string]any{"algorithm": "ECDSA", "size": 256}, "issuerRef": map[string]any{"name": "self"},
	})
	c.post(t, "issuers", "Issuer", "guarded", map[string]any{"ca": map[string]any{"secretName": "root"}})
	eventually(t, "the issuer is ready", func() bool { return c.has(t, certManagerAPI+"issuers/guarded", "Ready") })

	t.Run("what a policy forbids is not stored", func(t *testing.T) {
		refused := c.create(t, "", newCertificateRequest(t, "bad", "guarded"))
		const want = `certificate policy names: subject.commonName "bad"`
		if message, _ := refused.object(t)["message"].(string); refused.Code != http.StatusForbidden || !strings.Contains(message, want) {
			t.Errorf("%d %s\nwant %s", refused.Code, message, want)
		}
	})
	t.Run("two people approve", func(t *testing.T) {
		c.requestGuarded(t, "good-1")
		if told := c.approveRequest(t, "alice", "good-1"); !strings.Contains(strings.Join(told, " "), "recorded as approval 1 of 2; 1 more is needed") || c.has(t, requestsPath+"/good-1", "Approved") {
			t.Errorf("the first one is told %q", told)
		}
		c.approveRequest(t, "bob", "good-1")
		eventually(t, "it is issued", func() bool { return c.has(t, requestsPath+"/good-1", "Ready") })
	})
	for _, way := range c.waysPast("good-2", "good-3") {
		t.Run("what gets past the webhook is not signed: "+way.what, func(t *testing.T) {
			name := way.request
			c.requestGuarded(t, name)
			eventually(t, "one person can approve alone", func() bool {
				way.take(t)
				c.approveRequest(t, "alice", name)
				return c.has(t, requestsPath+"/"+name, "Approved")
			})
			var ready map[string]any
			eventually(t, "the request has failed", func() bool {
				ready = c.conditionOf(t, name, "Ready")
				return ready["reason"] == "Failed"
			})
			if message := fmt.Sprint(ready["message"]); !strings.Contains(message, "approved past certificate policy two-people: 0 of 2 approvals") {
				t.Errorf("it has failed because of %s", message)
			}
			status := c.do(t, call{method: http.MethodGet, path: requestsPath + "/" + name}).object(t)["status"].(map[string]any)
			if status["certificate"] != nil {
				t.Errorf("it has the certificate %v", status["certificate"])
			}
		})
	}
}

// wayPast is a way past the webhook, of those who may change its configuration.
type wayPast struct {
	what    string
	take    func(t *testing.T)
	request string // what is approved then
}

// waysPast returns the ways in an order in which each can be taken, with the
// requests for them.
func (c *cluster) waysPast(requests ...string) []wayPast {
	toEach := func(change func(t *testing.T, kind string) call) func(t *testing.T) {
		return func(t *testing.T) {
			for _, kind := range webhookKinds {
				if done := c.do(t, change(t, kind)); done.Code != http.StatusOK && done.Code != http.StatusNotFound {
					t.Fatalf("%+v", done)
				}
			}
		}
	}
	return []wayPast{
		{"it does not answer, and that is ignored", toEach(c.ignored), requests[0]},
		{"its configuration is deleted", toEach(func(_ *testing.T, kind string) call { return call{method: http.MethodDelete, path: webhookPath(kind)} }), requests[1]},
	}
}

// ignored has the API ignore a webhook that it cannot reach.
func (c *cluster) ignored(t *testing.T, kind string) call {
	t.Helper()
	var changed []any
	for _, webhook := range c.webhooks(t, kind) {
		changed = append(changed, map[string]any{
			"name": webhook["name"], "failurePolicy": "Ignore", "timeoutSeconds": 1, "clientConfig": map[string]any{"service": nil, "url": "https://127.0.0.1:1/"},
		})
	}
	return call{method: http.MethodPatch, path: webhookPath(kind), contentType: "application/strategic-merge-patch+json", body: map[string]any{"webhooks": changed}}
}

// requestGuarded creates a request to the guarded issuer, and waits until it waits for
// people.
func (c *cluster) requestGuarded(t *testing.T, name string) {
	t.Helper()
	if made := c.create(t, "", newCertificateRequest(t, name, "guarded")); made.Code != http.StatusCreated {
		t.Fatalf("%+v", made)
	}
	eventually(t, name+" waits for people", func() bool { return c.conditionOf(t, name, "certplane.dev/awaiting-approval") != nil })
}

// approveRequest approves a CertificateRequest as a user, and returns the warnings.
func (c *cluster) approveRequest(t *testing.T, user, name string) []string {
	t.Helper()
	path := requestsPath + "/" + name
	object := c.do(t, call{method: http.MethodGet, path: path}).object(t)
	status := maps.Clone(object["status"].(map[string]any))
	conditions, _ := status["conditions"].([]any)
	status["conditions"] = append(conditions, map[string]any{
		"type": "Approved", "status": "True", "reason": "Test", "message": "by " + user, "lastTransitionTime": "2026-01-01T00:00:00Z",
	})
	object["status"] = status
	done := c.do(t, call{method: http.MethodPut, path: path + "/status", body: object, user: user})
	if done.Code != http.StatusOK && done.Code != http.StatusConflict {
		t.Logf("approving %s as %s: %d %v", name, user, done.Code, done.Body)
	}
	return done.Warnings
}

// conditionOf returns a condition of a CertificateRequest, nil if it has none.
func (c *cluster) conditionOf(t *testing.T, name, kind string) map[string]any {
	t.Helper()
	status, _ := c.do(t, call{method: http.MethodGet, path: requestsPath + "/" + name}).object(t)["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, each := range conditions {
		if one := each.(map[string]any); one["type"] == kind {
			return one
		}
	}
	return nil
}
