package acmeserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
)

// Clients learn what certificate policies forbid before a request is made: of a new
// order its names, and at its finalization all, after which it is still ready.
func TestRefusedByPolicies(t *testing.T) {
	w, c, _ := startProgram(t)
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	w.consent("acme-orders", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"web"}})
	mac := w.externalKey("fleet", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	var made *response
	apitest.Eventually(t, "the namespace has agreed", func() bool {
		made = c.post(c.url("new-account"), map[string]any{"externalAccountBinding": c.binding(w.namespace+".fleet", mac)})
		return made.code == 201
	})
	c.kid = made.header.Get("Location")
	if r := c.tryOrder("a.corp.example"); r.code != 201 {
		t.Fatalf("without a policy: %d %s", r.code, r.body)
	}
	match := v1alpha1.PolicyMatch{Signers: []string{"corp.example/hosts"}, Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}}
	w.enforce(&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow, Match: match,
		Certificate: &v1alpha1.CertificateConditions{
			Names:  &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.corp.example"}}},
			Keys:   &v1alpha1.KeyConditions{Types: []v1alpha1.KeyType{"ECDSAP384"}},
			Usages: &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "server auth"}},
		},
		Rules: []v1alpha1.PolicyRule{
			{Name: "proven", Expression: `acme.identifiers.all(i, i.origin == "Preauthorized")`, Message: "names have to be preauthorized"},
			{Name: "key", Expression: `request.keyType.startsWith("ECDSA") && size(request.dnsNames) < 3`, Message: "few names"},
		},
	}})
	before := len(w.orders())
	refused := c.tryOrder("b.shop.corp.example", "c.corp.example")
	expect(t, "another zone", refused, 400, "rejectedIdentifier")
	if parts := refused.json(t)["subproblems"].([]any); len(parts) != 1 || parts[0].(map[string]any)["identifier"].(map[string]any)["value"] != "c.corp.example" || !strings.Contains(refused.body, "shop.corp.example") {
		t.Errorf("the problem is %s", refused.body)
	}
	if n := len(w.orders()); n != before {
		t.Errorf("%d orders were made", n-before)
	}
	url, order := c.order("b.shop.corp.example")
	if order["status"] != "ready" {
		t.Fatalf("the order is %v", order)
	}
	expect(t, "a key that is not permitted", c.post(url+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), "b.shop.corp.example")}), 403, "unauthorized")
	if r := c.post(url, nil); r.json(t)["status"] != "ready" {
		t.Errorf("then the order is %s", r.body)
	}
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.post(url+"/finalize", map[string]any{"csr": csr(t, key, "b.shop.corp.example")}); r.code != 200 || r.json(t)["status"] != "processing" {
		t.Errorf("finalize: %d %s", r.code, r.body)
	}
	w.edit(func(e *v1alpha1.AcmeEndpoint) { e.Spec.Approval.HideReasons = true })
	apitest.Eventually(t, "reasons are hidden", func() bool {
		r := c.tryOrder("b.shop.corp.example", "c.corp.example")
		return r.code == 400 && !strings.Contains(r.body, "shop") && strings.Contains(r.body, "refused by policy")
	})
}

// enforce stores a policy, and waits until it is in force.
func (w *world) enforce(p *v1alpha1.CertificatePolicy) {
	w.t.Helper()
	w.create(p)
	apitest.Eventually(w.t, "the policy is in force", func() bool {
		return w.api.Get(w.t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}
