package acmeserver_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/apitest"
)

func expect(t *testing.T, what string, r *response, code int, problem string) {
	t.Helper()
	if r.code != code || r.problem() != problem {
		t.Errorf("%s: %d %s, want %d %s", what, r.code, r.body, code, problem)
	}
}

func TestAccountOfOneKey(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	expect(t, "onlyReturnExisting", c.post(c.url("new-account"), map[string]any{"onlyReturnExisting": true}), 400, "accountDoesNotExist")
	first := c.register(map[string]any{"contact": []string{"mailto:ops@corp.example"}})
	if got := first.json(t); got["status"] != "valid" || fmt.Sprint(got["contact"]) != "[mailto:ops@corp.example]" || got["orders"] != c.kid+"/orders" {
		t.Errorf("the account is %v", got)
	}
	kid := c.kid
	c.kid = ""
	again := c.post(c.url("new-account"), map[string]any{"contact": []string{"mailto:else@corp.example"}})
	if again.code != 200 || again.header.Get("Location") != kid || again.body != first.body {
		t.Errorf("the second answer is %d %s %s", again.code, again.header.Get("Location"), again.body)
	}
	expect(t, "contact", c.post(c.url("new-account"), "[]"), 400, "malformed")
	other := w.client()
	expect(t, "no mailto", other.post(c.url("new-account"), map[string]any{"contact": []string{"tel:1"}}), 400, "unsupportedContact")
	expect(t, "two addresses", other.post(c.url("new-account"), map[string]any{"contact": []string{"mailto:a@b,c@d"}}), 400, "invalidContact")
}

func TestAccountUpdate(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/1" })
	c := w.client()
	refused := c.post(c.url("new-account"), map[string]any{})
	expect(t, "without agreement", refused, 403, "userActionRequired")
	if got := refused.links("terms-of-service"); !slices.Equal(got, []string{"https://corp.example/tos/1"}) {
		t.Errorf("the links are %v", got)
	}
	if got := c.register(map[string]any{"termsOfServiceAgreed": true}).json(t); got["termsOfServiceAgreed"] != true {
		t.Errorf("the account is %v", got)
	}
	r := c.post(c.kid, map[string]any{"contact": []string{"mailto:new@corp.example"}})
	if r.code != 200 || fmt.Sprint(r.json(t)["contact"]) != "[mailto:new@corp.example]" {
		t.Errorf("the update: %d %s", r.code, r.body)
	}
	if r := c.post(c.kid, nil); fmt.Sprint(r.json(t)["contact"]) != "[mailto:new@corp.example]" {
		t.Errorf("the account: %d %s", r.code, r.body)
	}
	if r := c.post(c.kid, "{}"); r.code != 200 {
		t.Errorf("an empty update: %d %s", r.code, r.body)
	}
	expect(t, "revoked by the client", c.post(c.kid, map[string]any{"status": "revoked"}), 400, "malformed")
	other := w.client()
	other.register(map[string]any{"termsOfServiceAgreed": true})
	expect(t, "the account of another", other.post(c.kid, nil), 404, "malformed")
	order, _ := c.order("a.corp.example")
	expect(t, "deactivation", c.post(c.kid, map[string]any{"status": "deactivated"}), 200, "")
	expect(t, "a deactivated account", c.post(order, nil), 401, "unauthorized")
	kid := c.kid
	c.kid = ""
	expect(t, "its key", c.post(c.url("new-account"), map[string]any{"termsOfServiceAgreed": true}), 401, "unauthorized")
	c.kid = kid
	apitest.Eventually(t, "the order of the account is invalid", func() bool {
		o := w.stored(order)
		return o.Status.State == v1alpha1.AcmeOrderInvalid
	})
}

// stored returns the order with a URL.
func (w *world) stored(url string) *v1alpha1.AcmeOrder {
	w.t.Helper()
	o := &v1alpha1.AcmeOrder{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: lastPart(url)}, o); err != nil {
		w.t.Fatal(err)
	}
	return o
}

func TestParallelRegistrationsOfOneKey(t *testing.T) {
	w := newWorld(t)
	w.serve(w.fronts[0].external)
	c := w.client()
	locations := make([]string, 100)
	var wait sync.WaitGroup
	for i := range locations {
		one := w.client(i % 2)
		one.key = c.key
		wait.Go(func() {
			r := one.post(one.url("new-account"), map[string]any{})
			if r.code != http.StatusOK && r.code != http.StatusCreated {
				t.Errorf("%d %s", r.code, r.body)
			}
			locations[i] = r.header.Get("Location")
		})
	}
	wait.Wait()
	slices.Sort(locations)
	if got := slices.Compact(locations); len(got) != 1 {
		t.Errorf("one key has the accounts %v", got)
	}
	list := &v1alpha1.AcmeAccountList{}
	if err := w.api.List(t.Context(), list, client.MatchingLabels{v1alpha1.AcmeEndpointLabel: w.endpoint.Name}); err != nil || len(list.Items) != 1 {
		t.Errorf("%d accounts are stored: %v", len(list.Items), err)
	}
}

// externalKey makes an external key with its Secret and returns its MAC key.
func (w *world) externalKey(name string, edits ...func(*v1alpha1.AcmeExternalKey)) []byte {
	w.t.Helper()
	mac := []byte("0123456789abcdef0123456789abcdef-" + name)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: map[string]string{"hmac": b64(mac)}})
	k := &v1alpha1.AcmeExternalKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.AcmeExternalKeySpec{Endpoint: w.endpoint.Name, ServiceAccount: "web", Secret: v1alpha1.AcmeSecret{Name: name, Key: "hmac"}},
	}
	for _, edit := range edits {
		edit(k)
	}
	w.create(k)
	return mac
}

func externalKeyOnly(e *v1alpha1.AcmeEndpoint) {
	e.Spec.Accounts.Admission = v1alpha1.AcmeAdmissionExternalKey
}

func TestExternalAccountBinding(t *testing.T) {
	w := newWorld(t, externalKeyOnly)
	mac, kid := w.externalKey("fleet"), w.namespace+".fleet"
	directory := w.client().send(http.MethodGet, w.client().url("directory"), "", nil)
	if meta := directory.json(t)["meta"].(map[string]any); meta["externalAccountRequired"] != true {
		t.Errorf("the directory says %v", meta)
	}
	c := w.client()
	expect(t, "no binding", c.post(c.url("new-account"), map[string]any{}), 403, "externalAccountRequired")
	bind := func(kid string, mac []byte, edits ...func(map[string]any)) map[string]any {
		return map[string]any{"externalAccountBinding": c.binding(kid, mac, edits...)}
	}
	unknown := c.post(c.url("new-account"), bind(w.namespace+".nobody", mac))
	expect(t, "an unknown kid", unknown, 403, "unauthorized")
	wrong := c.post(c.url("new-account"), bind(kid, append([]byte("x"), mac...)))
	if wrong.body != unknown.body || wrong.code != unknown.code {
		t.Errorf("a wrong MAC is answered with %s, an unknown kid with %s", wrong.body, unknown.body)
	}
	expect(t, "another url", c.post(c.url("new-account"), bind(kid, mac, func(h map[string]any) { h["url"] = "https://x" })), 400, "malformed")
	expect(t, "a nonce inside", c.post(c.url("new-account"), bind(kid, mac, func(h map[string]any) { h["nonce"] = "x" })), 400, "malformed")
	expect(t, "no MAC algorithm", c.post(c.url("new-account"), bind(kid, mac, func(h map[string]any) { h["alg"] = "ES256" })), 400, "badSignatureAlgorithm")
	other := w.client()
	stolen := map[string]any{"externalAccountBinding": other.binding(kid, mac)}
	expect(t, "the binding of another key", c.post(c.url("new-account"), stolen), 400, "malformed")
	if got := c.register(bind(kid, mac)).json(t); got["externalAccountBinding"] == nil {
		t.Errorf("the account does not show its binding: %v", got)
	}
	order, _ := c.order("a.corp.example")

	k := &v1alpha1.AcmeExternalKey{}
	at := client.ObjectKey{Namespace: w.namespace, Name: "fleet"}
	if err := w.api.Get(t.Context(), at, k); err != nil || k.Status.Accounts != 1 {
		t.Errorf("the key counts %d accounts: %v", k.Status.Accounts, err)
	}
	k.Spec.Revoked = true
	if err := w.api.Update(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	expect(t, "a revoked external key", c.post(c.url("new-order"), map[string]any{"identifiers": identifiers("b.corp.example")}), 403, "unauthorized")
	apitest.Eventually(t, "reading is refused too", func() bool { return c.post(order, nil).code == 403 })
	late := w.client()
	expect(t, "a new account of it", late.post(c.url("new-account"), map[string]any{"externalAccountBinding": late.binding(kid, mac)}), 403, "unauthorized")
}

func TestLastUseOfAnExternalKey(t *testing.T) {
	w := newWorld(t, externalKeyOnly)
	w.serve(w.fronts[0].external)
	mac := w.externalKey("once", func(k *v1alpha1.AcmeExternalKey) { k.Spec.MaxAccounts = 1 })
	codes := make([]int, 8)
	var wait sync.WaitGroup
	for i := range codes {
		c := w.client(i % 2)
		wait.Go(func() {
			codes[i] = c.post(c.url("new-account"), map[string]any{"externalAccountBinding": c.binding(w.namespace+".once", mac)}).code
		})
	}
	wait.Wait()
	slices.Sort(codes)
	if want := []int{201, 403, 403, 403, 403, 403, 403, 403}; !slices.Equal(codes, want) {
		t.Errorf("the answers are %v", codes)
	}
	keys := &v1alpha1.AcmeAccountKeyList{}
	if err := w.api.List(t.Context(), keys, client.MatchingLabels{v1alpha1.AcmeEndpointLabel: w.endpoint.Name}); err != nil || len(keys.Items) != 1 {
		t.Errorf("%d keys are stored: %v", len(keys.Items), err)
	}
}

// TestKeyWithoutAccount: whoever made a key was stopped before it had an account.
func TestKeyWithoutAccount(t *testing.T) {
	w := newWorld(t)
	w.serve(w.fronts[0].external, func(cfg *acmeserver.Config) {
		cfg.Now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	})
	c := w.client(1)
	c.register(map[string]any{})
	a, k := &v1alpha1.AcmeAccount{}, &v1alpha1.AcmeAccountKey{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: lastPart(c.kid)}, a); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: a.Status.Key}, k); err != nil || k.Spec.Account != a.Name {
		t.Fatalf("the key is of %q: %v", k.Spec.Account, err)
	}
	if err := w.api.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	expectSoon := func(kid string) *response {
		c.kid = kid
		var r *response
		apitest.Eventually(t, "the account is known to be gone", func() bool { r = c.post(kid, nil); return r.code != 200 })
		return r
	}
	expect(t, "the account", expectSoon(c.kid), 400, "accountDoesNotExist")
	c.kid = ""
	c.register(map[string]any{})
	again := &v1alpha1.AcmeAccountKey{}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(k), again); err != nil || again.UID == k.UID || again.Spec.Account != lastPart(c.kid) {
		t.Errorf("the key is of %q: %v", again.Spec.Account, err)
	}
}

func TestMostAccounts(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Limits.MaxAccounts = 1 })
	c := w.registered()
	other := w.client()
	apitest.Eventually(t, "the account is counted", func() bool {
		return other.post(other.url("new-account"), map[string]any{"onlyReturnExisting": true}).code == 400 && w.full()
	})
	kid := c.kid
	c.kid = ""
	if r := c.post(c.url("new-account"), map[string]any{}); r.code != 200 || r.header.Get("Location") != kid {
		t.Errorf("the account that there is: %d %s", r.code, r.body)
	}
}

// full reports whether a new account is refused, since there are too many. The one
// that is made otherwise is one more to count.
func (w *world) full() bool {
	fresh := w.client()
	r := fresh.post(fresh.url("new-account"), map[string]any{})
	return r.code == 429 && r.problem() == "rateLimited" && r.header.Get("Retry-After") != ""
}
