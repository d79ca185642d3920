package acmeserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	serverconfig "github.com/certplane/certplane/internal/run/server"
)

// TestProgram: "certplane serve" answers ACME clients at a port of its own, as an
// account that has the rights for it and no others.
func TestProgram(t *testing.T) {
	w, c, address := startProgram(t)
	mac := w.externalKey("fleet", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	answer, err := c.http.Get(c.url("roots.pem")) // what a client compares with a fingerprint
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	roots, _ := io.ReadAll(answer.Body)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) {
		t.Fatalf("the roots are %q", roots)
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}

	expect(t, "a namespace that lets nobody act as its ServiceAccount", c.post(c.url("new-account"), map[string]any{}), 403, "unauthorized")
	w.consent("acme-orders", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"web"}})
	var made *response
	apitest.Eventually(t, "the namespace has agreed", func() bool {
		made = c.post(c.url("new-account"), map[string]any{})
		return made.code == 201
	})
	c.kid = made.header.Get("Location")
	if r := c.tryOrder("a.corp.example"); r.code != 201 || r.json(t)["status"] != "pending" {
		t.Errorf("new-order: %d %s", r.code, r.body)
	}
	bound := w.clientOf("https://" + address)
	bound.http = c.http
	apitest.Eventually(t, "the server may read the Secret", func() bool {
		return bound.post(bound.url("new-account"), map[string]any{"externalAccountBinding": bound.binding(w.namespace+".fleet", mac)}).code == 201
	})
	again := bound.post(bound.url("new-account"), map[string]any{})
	bound.kid = again.header.Get("Location")
	url, order := bound.order("b.corp.example")
	if order["status"] != "ready" {
		t.Errorf("the order is %v", order)
	}
	key := apitest.NewKey(t)
	if r := bound.post(url+"/finalize", map[string]any{"csr": csr(t, key, "b.corp.example")}); r.code != 200 {
		t.Errorf("finalize: %d %s", r.code, r.body)
	}
	if r := bound.tryOrder("elsewhere.example"); r.code != 400 {
		t.Errorf("a name that is not allowed: %d %s", r.code, r.body)
	}
	if r := bound.post(url+"/finalize", map[string]any{"csr": csr(t, key, "other.corp.example")}); r.code != 403 {
		t.Errorf("another request: %d %s", r.code, r.body)
	}
	apitest.Eventually(t, "Events say what was refused, and that the key was used", func() bool {
		return w.hasEvent("AcmeAccount", "Refused", "elsewhere.example") && w.hasEvent("AcmeOrder", "Refused", "not ready") && w.hasEvent("AcmeExternalKey", "AccountBound", "")
	})
	next := w.clientOf("https://" + address).key
	change := flattened(t, map[string]any{"alg": "ES256", "jwk": jwk(&next.PublicKey), "url": bound.url("key-change")},
		string(encoded(t, map[string]any{"account": bound.kid, "oldKey": jwk(&bound.key.PublicKey)})), next, "")
	if r := bound.post(bound.url("key-change"), change); r.code != 200 {
		t.Errorf("key-change: %d %s", r.code, r.body)
	}
}

// hasEvent reports whether an Event about an object of a kind, of this world, has a
// reason and a text.
func (w *world) hasEvent(kind, reason, text string) bool {
	w.t.Helper()
	list := &eventsv1.EventList{}
	if err := w.api.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind == kind && e.Reason == reason && strings.Contains(e.Note, text)
	})
}

// consent gives an account of the ACME server a right in the namespace, as its owner
// has to.
func (w *world) consent(account string, rule rbacv1.PolicyRule) {
	w.t.Helper()
	name := metav1.ObjectMeta{Namespace: w.namespace, Name: account}
	w.create(&rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{rule}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: account}},
	})
}

// startProgram starts "certplane serve" with an endpoint, and returns a client without
// an account.
func startProgram(t *testing.T) (w *world, c *raw, address string) {
	t.Helper()
	address = apitest.FreeAddress(t)
	w = &world{t: t, shared: apitest.Start(t, func(cfg *serverconfig.Config) {
		withoutControllers(cfg)
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = address, "https://"+address
	})}
	w.admin = apitest.Client(t, w.shared.Admin(t))
	var err error
	if w.api, err = client.New(w.shared.Admin(t), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	w.namespace = apitest.OwnNamespace(t, w.admin)
	w.serviceAccount("web")
	w.endpoint = &v1alpha1.AcmeEndpoint{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: v1alpha1.AcmeEndpointSpec{
		Accounts:    v1alpha1.AcmeAccounts{Admission: v1alpha1.AcmeAdmissionOpen, ServiceAccount: &v1alpha1.AcmeServiceAccount{Namespace: w.namespace, Name: "web"}},
		Identifiers: v1alpha1.AcmeIdentifiers{DNS: &v1alpha1.AcmeDNSNames{Allow: []string{"*.corp.example"}}},
		Profiles:    []v1alpha1.AcmeProfile{{Name: "server", Signer: &v1alpha1.AcmeSigner{Name: "corp.example/hosts"}}},
		Challenges:  v1alpha1.AcmeChallenges{Types: []string{"http-01"}},
	}}
	w.create(withDefaults(t, w.endpoint))
	w.consent("acme-server", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"fleet"}})
	c = w.clientOf("https://" + address)
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	apitest.Eventually(t, "the endpoint is served", func() bool {
		r, err := c.http.Get(c.url("directory")) // nobody may listen yet
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return w, c, address
}
