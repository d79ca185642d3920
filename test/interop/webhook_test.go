package interop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
)

const (
	// allOfCertManager also enables the controllers for cert-manager.io.
	allOfCertManager = "--controllers=*,issuers,certificaterequests,certificaterequests-approver,certificatesigningrequests,certificates"

	certManagerAPI = "/apis/cert-manager.io/v1/namespaces/default/"
	requestsPath   = certManagerAPI + "certificaterequests"
	webhookSecret  = "/api/v1/namespaces/certplane-system/secrets/certplane-webhook"
	webhookDenial  = `admission webhook "webhook.cert-manager.io" denied the request: `
)

// The controllers of cert-manager.io and their admission webhook serve a real
// kube-apiserver with the rights that the manifests give them.
func TestWebhookInCluster(t *testing.T) {
	c := startCluster(t, allOfCertManager)
	addresses := []string{freeAddress(t), freeAddress(t)}
	first := c.controllers(t, allOfCertManager, "--webhook-bind-address", addresses[0])

	eventually(t, "the API knows whom to trust", func() bool { return len(c.bundles(t)) == 2 })
	before := c.bundles(t)
	c.install(t, allOfCertManager)
	if after := c.bundles(t); !maps.Equal(after, before) {
		t.Errorf("after the manifests were applied again, the API trusts %v", after)
	}

	// There is no pod network.
	c.reachWebhook(t, addresses[0])
	eventually(t, "the certificate has the new address", func() bool { return serves(t, addresses[0]).VerifyHostname("127.0.0.1") == nil })
	t.Run("certificates", func(t *testing.T) { c.testCertificates(t) })
	t.Run("requester", func(t *testing.T) { c.testRequester(t) })
	t.Run("approval", func(t *testing.T) { c.testApproval(t) })
	t.Run("checks", func(t *testing.T) { c.testChecks(t) })
	t.Run("Signers", func(t *testing.T) { c.testSigners(t) })

	c.controllers(t, allOfCertManager, "--webhook-bind-address", addresses[1])
	t.Run("second replica", func(t *testing.T) {
		if one, other := serves(t, addresses[0]), serves(t, addresses[1]); !one.Equal(other) {
			t.Error("the replicas serve different certificates")
		}
		c.reachWebhook(t, addresses[1])
		first.stop()
		eventually(t, "the other one answers", func() bool {
			return c.create(t, "alice", newCertificateRequest(t, "other", "any")).Code == http.StatusCreated
		})
	})
	t.Run("deleted Secret", func(t *testing.T) {
		was := serves(t, addresses[1])
		if gone := c.do(t, call{method: http.MethodDelete, path: webhookSecret}); gone.Code != http.StatusOK {
			t.Fatalf("%+v", gone)
		}
		eventually(t, "there is another certificate", func() bool { return !serves(t, addresses[1]).Equal(was) })
		eventually(t, "the API trusts it", func() bool {
			return c.create(t, "alice", newCertificateRequest(t, "healed", "any")).Code == http.StatusCreated
		})
	})
	if said := first.output.tail(1 << 20); strings.Contains(said, "forbidden") && !strings.Contains(said, "certificaterequests-approver") {
		t.Errorf("a right is missing:\n%s", said)
	}
}

// bundles returns the CAs with which the API verifies the webhook, by the kind
// of configuration.
func (c *cluster) bundles(t *testing.T) map[string]string {
	t.Helper()
	bundles := map[string]string{}
	for _, kind := range webhookKinds {
		for _, webhook := range c.webhooks(t, kind) {
			if bundle, _ := webhook["clientConfig"].(map[string]any)["caBundle"].(string); bundle != "" {
				bundles[kind] = bundle
			}
		}
	}
	return bundles
}

var webhookKinds = []string{"mutating", "validating"}

func webhookPath(kind string) string {
	return "/apis/admissionregistration.k8s.io/v1/" + kind + "webhookconfigurations/certplane-webhook.certplane-system"
}

// reachWebhook makes the API reach each webhook at an address instead of its
// service.
func (c *cluster) reachWebhook(t *testing.T, address string) {
	t.Helper()
	for _, kind := range webhookKinds {
		var moved []any
		for _, webhook := range c.webhooks(t, kind) {
			config := webhook["clientConfig"].(map[string]any)
			url := "https://" + address
			if service, first := config["service"].(map[string]any); first {
				url += service["path"].(string)
			} else {
				old, err := neturl.Parse(config["url"].(string))
				if err != nil {
					t.Fatal(err)
				}
				url += old.Path
			}
			moved = append(moved, map[string]any{"name": webhook["name"], "clientConfig": map[string]any{"service": nil, "url": url}})
		}
		patch := call{method: http.MethodPatch, path: webhookPath(kind), contentType: "application/strategic-merge-patch+json", body: map[string]any{"webhooks": moved}}
		if done := c.do(t, patch); done.Code != http.StatusOK {
			t.Fatalf("%+v", done)
		}
	}
}

func (c *cluster) webhooks(t *testing.T, kind string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, webhook := range c.do(t, call{method: http.MethodGet, path: webhookPath(kind)}).object(t)["webhooks"].([]any) {
		all = append(all, webhook.(map[string]any))
	}
	return all
}

// serves returns the certificate that is served at an address.
func serves(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0]
}

// testCertificates checks that the manifests of a CA and of what it signs
// become Ready, and that only the built-in approver approves.
func (c *cluster) testCertificates(t *testing.T) {
	eventually(t, "the webhook answers", func() bool {
		return c.post(t, "issuers", "Issuer", "self", map[string]any{"selfSigned": map[string]any{}}) == http.StatusCreated
	})
	c.post(t, "certificates", "Certificate", "root", map[string]any{
		"secretName": "root", "isCA": true, "commonName": "root", "privateKey": map[string]any{"algorithm": "ECDSA", "size": 256},
		"issuerRef": map[string]any{"name": "self"},
	})
	c.post(t, "issuers", "Issuer", "ca", map[string]any{"ca": map[string]any{"secretName": "root"}})
	c.post(t, "certificates", "Certificate", "web", map[string]any{
		"secretName": "web", "dnsNames": []string{"web.example.com"}, "privateKey": map[string]any{"algorithm": "ECDSA", "size": 256},
		"issuerRef": map[string]any{"name": "ca"},
	})
	for _, path := range []string{"issuers/self", "certificates/root", "issuers/ca", "certificates/web"} {
		eventually(t, path+" is ready", func() bool { return c.has(t, certManagerAPI+path, "Ready") })
	}
	secret := c.do(t, call{method: http.MethodGet, path: "/api/v1/namespaces/default/secrets/web"}).object(t)
	data, err := base64.StdEncoding.DecodeString(secret["data"].(map[string]any)["tls.crt"].(string))
	block, _ := pem.Decode(data)
	if err != nil || block == nil {
		t.Fatalf("tls.crt: %v", err)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || leaf.VerifyHostname("web.example.com") != nil || leaf.Issuer.CommonName != "root" {
		t.Errorf("web has %+v, %v", leaf, err)
	}
}

// testRequester checks that a request always names the user that created it,
// whatever the client wrote.
func (c *cluster) testRequester(t *testing.T) {
	c.grant(t, "alice", "certificaterequests", "create", "update")
	body := newCertificateRequest(t, "mine", "any")
	spec := body["spec"].(map[string]any)
	spec["username"], spec["groups"] = "mallory", []string{"system:masters"}
	eventually(t, "alice has her rights", func() bool { return c.create(t, "alice", body).Code == http.StatusCreated })

	eventually(t, "the built-in approver has approved", func() bool { return c.has(t, requestsPath+"/mine", "Approved") })
	object := c.do(t, call{method: http.MethodGet, path: requestsPath + "/mine"}).object(t)
	spec = object["spec"].(map[string]any)
	if groups, _ := spec["groups"].([]any); spec["username"] != "alice" || !slices.Equal(groups, []any{"system:authenticated"}) {
		t.Errorf("the request is of %v in %v", spec["username"], spec["groups"])
	}
	spec["username"] = "mallory"
	c.refused(t, call{method: http.MethodPut, path: requestsPath + "/mine", body: object, user: "alice"}, "spec.username: Forbidden: username identity cannot be changed once set")
	spec["username"], spec["duration"] = "alice", "24h"
	c.refused(t, call{method: http.MethodPut, path: requestsPath + "/mine", body: object, user: "alice"}, "spec: Forbidden: cannot change spec after creation")
}

// testApproval checks that a user that decides needs the right to do so for the
// issuer, and so does the built-in approver.
func (c *cluster) testApproval(t *testing.T) {
	for _, user := range []string{"clerk", "checker"} {
		c.grant(t, user, "certificaterequests/status", "update")
	}
	c.grant(t, "checker", "signers", "approve", "issuers.acme.example.com/*")
	c.do(t, call{method: http.MethodPost, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: definition("acme.example.com", "issuers", "Issuer")})
	body := newCertificateRequest(t, "foreign", "any")
	body["spec"].(map[string]any)["issuerRef"] = map[string]any{"group": "acme.example.com", "kind": "Issuer", "name": "any"}
	if created := c.create(t, "", body); created.Code != http.StatusCreated {
		t.Fatalf("%+v", created)
	}
	approve := func(user string) call {
		object := c.do(t, call{method: http.MethodGet, path: requestsPath + "/foreign"}).object(t)
		object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "Approved", "status": "True", "reason": "Test", "message": "by a test", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}
		return call{method: http.MethodPut, path: requestsPath + "/foreign/status", body: object, user: user}
	}
	eventually(t, "the kind is known", func() bool {
		return !strings.Contains(fmt.Sprint(c.do(t, approve("clerk")).Body), "referenced signer resource does not exist")
	})
	c.refused(t, approve("clerk"), `status.conditions: Forbidden: user "clerk" does not have permissions to set approved/denied conditions for issuer {any Issuer acme.example.com}`)
	if c.has(t, requestsPath+"/foreign", "Approved") {
		t.Fatal("somebody without the right has approved")
	}
	if done := c.do(t, approve("checker")); done.Code != http.StatusOK || !c.has(t, requestsPath+"/foreign", "Approved") {
		t.Errorf("with the right: %+v", done)
	}
}

// testChecks makes the requests of "cmctl check api", and one refusal of each
// kind.
func (c *cluster) testChecks(t *testing.T) {
	body := newCertificateRequest(t, "check", "any")
	dry := call{method: http.MethodPost, path: requestsPath + "?dryRun=All", body: body}
	answer := c.do(t, dry)
	if spec, _ := answer.object(t)["spec"].(map[string]any); answer.Code != http.StatusCreated || spec["username"] == nil {
		t.Errorf("a request that is right: %+v", answer)
	}
	body["spec"].(map[string]any)["request"] = base64.StdEncoding.EncodeToString([]byte("invalid-csr"))
	c.refused(t, dry, "spec.request: Invalid value")
	issuer := map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": map[string]any{"name": "none"}, "spec": map[string]any{}}
	c.refused(t, call{method: http.MethodPost, path: certManagerAPI + "issuers", body: issuer}, "spec")
	certificate := map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": map[string]any{"name": "none"},
		"spec": map[string]any{"secretName": "none", "issuerRef": map[string]any{"name": "ca"}}}
	c.refused(t, call{method: http.MethodPost, path: certManagerAPI + "certificates", body: certificate}, "at least one of commonName")
}

// testSigners checks that a Signer whose expressions do not compile is refused,
// as is a second one of the same name; a valid one is accepted, and works.
func (c *cluster) testSigners(t *testing.T) {
	const path = "/apis/certplane.dev/v1alpha1/signers"
	signer := func(name, signerName, uris string) map[string]any {
		return map[string]any{"apiVersion": "certplane.dev/v1alpha1", "kind": "Signer", "metadata": map[string]any{"name": name}, "spec": map[string]any{
			"signerName": signerName, "requests": []string{"CertificateSigningRequest"}, "ca": map[string]any{"generated": map[string]any{}},
			"profile": map[string]any{"names": map[string]any{"uris": uris}, "usages": []string{"digital signature"}},
		}}
	}
	refused := func(body map[string]any, field, want string) {
		t.Helper()
		got := c.do(t, call{method: http.MethodPost, path: path, body: body}).object(t)
		details, _ := got["details"].(map[string]any)
		if message := fmt.Sprint(got["message"]); got["code"] != 422.0 || !strings.HasPrefix(message, `admission webhook "webhook.certplane.dev" denied the request: `) ||
			!strings.Contains(message, want) || !strings.Contains(fmt.Sprint(details["causes"]), field) {
			t.Errorf("got %v\nwant %s: %s", got, field, want)
		}
	}
	refused(signer("good", "example.com/webhook", "request.nmae"), "spec.profile.names.uris", "undefined field 'nmae'")
	if made := c.do(t, call{method: http.MethodPost, path: path, body: signer("good", "example.com/webhook", "['a:b']")}); made.Code != http.StatusCreated {
		t.Fatalf("a good one: %+v", made)
	}
	refused(signer("second", "example.com/webhook", "['a:b']"), "spec.signerName", "the Signer good declares it already")
	eventually(t, "the Signer is ready", func() bool { return c.has(t, path+"/good", "Ready") })
}

func (c *cluster) refused(t *testing.T, request call, want string) {
	t.Helper()
	got := c.do(t, request)
	message, _ := got.object(t)["message"].(string)
	if got.Code != http.StatusForbidden || !strings.HasPrefix(message, webhookDenial) || !strings.Contains(message, want) {
		t.Errorf("%s %s: %d %s\nwant %s...%s", request.method, request.path, got.Code, message, webhookDenial, want)
	}
}

// post creates an object of cert-manager.io and returns the answer's code.
func (c *cluster) post(t *testing.T, resource, kind, name string, spec map[string]any) int {
	t.Helper()
	return c.do(t, call{method: http.MethodPost, path: certManagerAPI + resource, body: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}).Code
}

// create sends a request as a user, or as the administrator.
func (c *cluster) create(t *testing.T, user string, request map[string]any) answer {
	t.Helper()
	return c.do(t, call{method: http.MethodPost, path: requestsPath, body: request, user: user})
}

// has reports whether a condition of an object is True.
func (c *cluster) has(t *testing.T, path, condition string) bool {
	t.Helper()
	status, _ := c.do(t, call{method: http.MethodGet, path: path}).object(t)["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		known, _ := c.(map[string]any)
		return known["type"] == condition && known["status"] == "True"
	})
}

// grant lets a user do something in cert-manager.io.
func (c *cluster) grant(t *testing.T, user, resource, verb string, more ...string) {
	t.Helper()
	rule := map[string]any{"apiGroups": []string{"cert-manager.io"}, "resources": []string{resource}, "verbs": []string{verb}}
	if resource == "signers" {
		rule["resourceNames"] = more
	} else {
		rule["verbs"] = append([]string{verb}, more...)
	}
	role := user + "-" + strings.ReplaceAll(resource, "/", "-")
	if made := c.do(t, call{method: http.MethodPost, path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", body: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": role}, "rules": []any{rule},
	}}); made.Code != http.StatusCreated {
		t.Fatalf("%+v", made)
	}
	c.bind(t, role, user)
}

func newCertificateRequest(t *testing.T, name, issuer string) map[string]any {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	var request bytes.Buffer
	if err := pem.Encode(&request, &pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"request": base64.StdEncoding.EncodeToString(request.Bytes()), "issuerRef": map[string]any{"name": issuer}},
	}
}

// definition is a namespaced custom resource without a schema.
func definition(group, plural, kind string) map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}
}
