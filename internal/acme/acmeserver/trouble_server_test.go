package acmeserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// edit changes the endpoint as it is stored, until all processes know.
func (w *world) edit(edit func(*v1alpha1.AcmeEndpoint)) {
	w.t.Helper()
	apitest.Eventually(w.t, "the endpoint is changed", func() bool {
		e := &v1alpha1.AcmeEndpoint{}
		if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(w.endpoint), e); err != nil {
			w.t.Fatal(err)
		}
		edit(e)
		return w.api.Update(w.t.Context(), e) == nil
	})
}

func (c *raw) tryOrder(names ...string) *response {
	return c.post(c.url("new-order"), map[string]any{"identifiers": identifiers(names...)})
}

func TestLimits(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Limits.PendingOrdersPerAccount = 2
		e.Spec.Limits.AccountsPerAddressPerHour = 2
	})
	now := time.Now()
	w.serve("", func(cfg *acmeserver.Config) {
		cfg.Address, cfg.Now = nil, func() time.Time { return now }
	})
	c, other := w.registered(1), w.registered(1)
	late := w.client(1)
	tooMany := late.post(late.url("new-account"), map[string]any{})
	expect(t, "a third account of the address", tooMany, 429, "rateLimited")
	if got := tooMany.header.Get("Retry-After"); got != "1800" {
		t.Errorf("Retry-After is %q", got)
	}
	var refused *response
	apitest.Eventually(t, "the account has too many orders", func() bool {
		refused = c.tryOrder(fmt.Sprintf("n%d.corp.example", time.Now().UnixNano()))
		return refused.code != 201
	})
	expect(t, "too many orders", refused, 429, "rateLimited")
	if seconds, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q", refused.header.Get("Retry-After"))
	}
	if r := other.tryOrder("a.corp.example"); r.code != 201 {
		t.Errorf("another account: %d %s", r.code, r.body)
	}
	var flood *response
	for range 300 {
		if flood = late.send(http.MethodGet, late.url("directory"), "", nil); flood.code != 200 {
			break
		}
	}
	expect(t, "a flood", flood, 429, "rateLimited")
	expect(t, "a message of a stranger", late.post(late.url("new-account"), map[string]any{}), 429, "rateLimited")
}

func TestFormerURL(t *testing.T) {
	w := newWorld(t)
	former := w.fronts[0].external
	moved := w.serve("https://new.corp.example", func(cfg *acmeserver.Config) { cfg.FormerURLs = []string{former} })
	c := w.registered()
	c.dial, c.nonce = moved.http.URL, ""
	r := c.tryOrder("a.corp.example")
	if r.code != 201 || !strings.HasPrefix(r.header.Get("Location"), "https://new.corp.example/acme/") {
		t.Errorf("%d %s %v", r.code, r.body, r.header)
	}
	c.external, c.nonce = moved.external, ""
	if r := c.post(r.header.Get("Location"), nil); r.code != 200 {
		t.Errorf("the new URL, signed with the former kid: %d %s", r.code, r.body)
	}
	stranger := w.client()
	stranger.nonce, stranger.external = stranger.newNonce(), "https://else.corp.example"
	expect(t, "a URL of nobody", stranger.post(stranger.url("new-account"), map[string]any{}), 403, "unauthorized")
}

func TestNonceOfAnotherProcess(t *testing.T) {
	w := newWorld(t)
	first := w.fronts[0]
	w.serve(first.external)
	w.serve(first.external, func(cfg *acmeserver.Config) {
		cfg.RedeemElsewhere = func(_ context.Context, process nonce.Instance, text string) bool {
			return process == first.Instance() && first.Redeem(text)
		}
	})
	c := w.registered()
	c.dial = w.fronts[1].http.URL
	expect(t, "a process that knows no other", c.post(c.kid, nil), 400, "badNonce")
	expect(t, "with the nonce of its answer", c.post(c.kid, nil), 200, "")
	c.dial, c.nonce = first.http.URL, ""
	c.nonce = c.newNonce()
	c.dial = w.fronts[2].http.URL
	kept := c.nonce
	expect(t, "a process that asks", c.post(c.kid, nil), 200, "")
	c.nonce = kept
	expect(t, "the same nonce again", c.post(c.kid, nil), 400, "badNonce")
}

func TestTroubleBehind(t *testing.T) {
	w := newWorld(t)
	c := w.registered()
	url, _ := c.order("a.corp.example")
	trouble := func() error { return nil }
	f := w.serve(w.fronts[0].external, func(cfg *acmeserver.Config) {
		direct, err := client.NewWithWatch(w.shared.Admin(t), client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Client = interceptor.NewClient(direct, interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if _, ok := o.(*v1alpha1.AcmeOrder); ok {
					if err := trouble(); err != nil {
						return err
					}
				}
				return api.Get(ctx, key, o, options...)
			},
		})
	})
	c.dial, c.nonce = f.http.URL, ""
	for _, tc := range []struct {
		name    string
		trouble func() error
		code    int
	}{
		{"the API is overloaded", func() error { return apierrors.NewServiceUnavailable("secret") }, 503},
		{"the API is away", func() error { return fmt.Errorf("dialling: secret") }, 503},
		{"the API refuses", func() error {
			return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("acmeorders").GroupResource(), "x", fmt.Errorf("secret"))
		}, 500},
		{"a panic", func() error { panic("secret") }, 500},
	} {
		trouble = tc.trouble
		r := c.post(url, nil)
		expect(t, tc.name, r, tc.code, "serverInternal")
		if r.header.Get("Replay-Nonce") == "" || len(r.links("index")) != 1 || strings.Contains(r.body, "secret") {
			t.Errorf("%s: %v %s", tc.name, r.header, r.body)
		}
		if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); tc.code == 503 && (err != nil || seconds < 10 || seconds > 60) {
			t.Errorf("%s: Retry-After is %q", tc.name, r.header.Get("Retry-After"))
		}
	}
	trouble = func() error { return nil }
	if r := c.post(url, nil); r.code != 200 {
		t.Errorf("after all of them: %d %s", r.code, r.body)
	}
	f.Drain()
	expect(t, "a nonce of a process that stops", c.send(http.MethodGet, c.url("new-nonce"), "", nil), 503, "serverInternal")
}

func TestAccountsThatWait(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.Admission = v1alpha1.AcmeAdmissionApproval })
	c := w.registered()
	refused := c.tryOrder("a.corp.example")
	expect(t, "an account that waits", refused, 403, "userActionRequired")
	help, _ := refused.json(t)["instance"].(string)
	if help != c.url("help/account/"+lastPart(c.kid)) || !slices.Equal(refused.links("help"), []string{help}) {
		t.Errorf("the help is at %q, the links are %v", help, refused.header.Values("Link"))
	}
	if page := c.send(http.MethodGet, help, "", nil); page.code != 200 || !strings.Contains(page.body, lastPart(c.kid)) {
		t.Errorf("the help: %d %s", page.code, page.body)
	}
	a := &v1alpha1.AcmeAccount{}
	decide := func(decision v1alpha1.AcmeDecision) {
		t.Helper()
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: lastPart(c.kid)}, a); err != nil {
			t.Fatal(err)
		}
		a.Spec.Decision = decision
		if err := w.api.Update(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	decide(v1alpha1.AcmeDecisionApproved)
	if r := c.tryOrder("a.corp.example"); r.code != 201 {
		t.Errorf("an approved account: %d %s", r.code, r.body)
	}
	decide(v1alpha1.AcmeDecisionRevoked)
	r := c.tryOrder("b.corp.example")
	expect(t, "a revoked account", r, 403, "unauthorized")
	if detail, _ := r.json(t)["detail"].(string); !strings.HasPrefix(detail, "account revoked") {
		t.Errorf("the detail is %q", detail)
	}
}

func TestRights(t *testing.T) {
	w := newWorld(t, externalKeyOnly, func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Profiles[1] = v1alpha1.AcmeProfile{Name: "mesh", Issuer: &v1alpha1.AcmeIssuer{Name: "mesh", Kind: "Issuer", Group: "cert-manager.io"}}
	})
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"}})
	mac := w.externalKey("other", func(k *v1alpha1.AcmeExternalKey) { k.Spec.ServiceAccount = "other" })
	c := w.client()
	expect(t, "without use", c.post(c.url("new-account"), map[string]any{"externalAccountBinding": c.binding(w.namespace+".other", mac)}), 403, "unauthorized")
	mac = w.externalKey("web", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	c = w.client()
	c.register(map[string]any{"externalAccountBinding": c.binding(w.namespace+".web", mac)})
	r := c.post(c.url("new-order"), map[string]any{"identifiers": identifiers("a.corp.example"), "profile": "mesh"})
	if r.code != 201 || r.json(t)["status"] != "ready" {
		t.Fatalf("new-order: %d %s", r.code, r.body)
	}
	url := r.header.Get("Location")
	finalize := map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")}
	expect(t, "without create", c.post(url+"/finalize", finalize), 403, "unauthorized")
	if r := c.post(url, nil); r.json(t)["status"] != "ready" {
		t.Errorf("the order is %s", r.body)
	}
	w.edit(func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles = e.Spec.Profiles[:1] })
	apitest.Eventually(t, "the profile is gone", func() bool {
		return c.post(url+"/finalize", finalize).problem() == "invalidProfile" || c.post(url, nil).json(t)["status"] == "invalid"
	})
	if r := c.post(url, nil); r.json(t)["status"] != "invalid" {
		t.Errorf("the order is %s", r.body)
	}
}

func TestNewTerms(t *testing.T) {
	w := newWorld(t)
	c := w.registered()
	w.edit(func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/2" })
	var refused *response
	apitest.Eventually(t, "the terms are demanded", func() bool {
		refused = c.tryOrder("a.corp.example")
		return refused.code != 201
	})
	expect(t, "new terms", refused, 403, "userActionRequired")
	if got := refused.links("terms-of-service"); !slices.Equal(got, []string{"https://corp.example/tos/2"}) || refused.json(t)["instance"] != "https://corp.example/tos/2" {
		t.Errorf("%v %s", got, refused.body)
	}
	expect(t, "agreement", c.post(c.kid, map[string]any{"termsOfServiceAgreed": true}), 200, "")
	if r := c.tryOrder("a.corp.example"); r.code != 201 {
		t.Errorf("after the agreement: %d %s", r.code, r.body)
	}
}

func TestEndpointThatIsNotReady(t *testing.T) {
	w := newWorld(t)
	c := w.registered()
	e := &v1alpha1.AcmeEndpoint{}
	apitest.Eventually(t, "the endpoint is not ready", func() bool {
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(w.endpoint), e); err != nil {
			t.Fatal(err)
		}
		e.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "SignerMissing", LastTransitionTime: metav1.Now()}}
		return w.api.Status().Update(t.Context(), e) == nil && c.post(c.kid, nil).code == 503
	})
	if r := c.send(http.MethodGet, c.url("directory"), "", nil); r.code != 200 {
		t.Errorf("the directory: %d %s", r.code, r.body)
	}
}

func TestRacesOfTwoProcesses(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Approval.FinalizeWait.Duration = time.Second })
	w.controllers()
	w.serve(w.fronts[0].external)
	c := w.registered()
	at := func(i int) *raw {
		one := *c
		one.dial, one.nonce = w.fronts[i%2].http.URL, ""
		return &one
	}
	_, cert, _ := c.finished(w, "a.corp.example")
	id := pki.CertID(cert)
	for i := range 2 {
		apitest.Eventually(t, "the certificate is known", func() bool {
			return at(i).send(http.MethodGet, c.url("renewal-info/"+id), "", nil).code == 200
		})
	}
	renewals := make([]*response, 6)
	var wait sync.WaitGroup
	for i := range renewals {
		one := at(i)
		wait.Go(func() {
			renewals[i] = one.post(one.url("new-order"), map[string]any{"identifiers": identifiers("a.corp.example"), "replaces": id})
		})
	}
	wait.Wait()
	url := ""
	for _, r := range renewals {
		switch {
		case r.code == 201 && url == "":
			url = r.header.Get("Location")
		case r.code != 409:
			t.Errorf("a second renewal: %d %s", r.code, r.body)
		}
	}
	var order map[string]any
	if err := json.Unmarshal([]byte(c.post(url, nil).body), &order); err != nil {
		t.Fatal(err)
	}
	challenge := c.post(order["authorizations"].([]any)[0].(string), nil).json(t)["challenges"].([]any)[0].(map[string]any)["url"].(string)
	c.post(challenge, "{}")
	apitest.Eventually(t, "the authorization is valid", func() bool {
		return at(0).post(order["authorizations"].([]any)[0].(string), nil).json(t)["status"] == "valid"
	})
	if r := at(1).post(url, nil); r.json(t)["status"] != "ready" { // they never disagree, whoever is asked
		t.Errorf("the authorization is valid, and the order is %s", r.body)
	}
	codes := make([]int, 4)
	for i := range codes {
		one, request := at(i), csr(t, apitest.NewKey(t), "a.corp.example")
		wait.Go(func() { codes[i] = one.post(url+"/finalize", map[string]any{"csr": request}).code })
	}
	wait.Wait()
	slices.Sort(codes)
	if want := []int{200, 403, 403, 403}; !slices.Equal(codes, want) {
		t.Errorf("finalizations of one order are answered with %v", codes)
	}
}
