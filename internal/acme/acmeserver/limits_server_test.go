package acmeserver_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// later is a clock that a test sets forward.
type later struct{ by atomic.Int64 }

func (l *later) now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// serveLater starts a process with a clock of its own.
func (w *world) serveLater() (*later, *front) {
	w.t.Helper()
	clock := &later{}
	return clock, w.serve("", func(cfg *acmeserver.Config) { cfg.Now = clock.now })
}

// at sends the next requests to a process with a nonce of its present time.
func (c *raw) at(f *front) *raw {
	one := *c
	one.external, one.dial, one.nonce = f.external, f.http.URL, ""
	return &one
}

var orderNumber atomic.Int64

// tryNext orders a certificate for a name that nobody has ordered.
func (c *raw) tryNext() *response {
	return c.tryOrder(fmt.Sprintf("n%d.corp.example", orderNumber.Add(1)))
}

// limited places orders until one is refused, and returns how long the client is told
// to wait.
func (c *raw) limited(what string) time.Duration {
	c.t.Helper()
	var refused *response
	apitest.Eventually(c.t, what, func() bool { refused = c.tryNext(); return refused.code != 201 })
	expect(c.t, what, refused, 429, "rateLimited")
	seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		c.t.Errorf("%s: Retry-After is %q", what, refused.header.Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// TestRetryAfterIsTrue: an account with too many orders is told when it may order again.
// It may then, and not before; other accounts may always.
func TestRetryAfterIsTrue(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Limits.OrdersPerAccountPerHour = 3 })
	clock, f := w.serveLater()
	c, other := w.registered(1), w.registered(1)
	began := time.Now()
	wait := c.limited("too many orders in an hour")
	if wait < 50*time.Minute || wait > time.Hour+time.Second {
		t.Errorf("the client is told to wait for %v", wait)
	}
	if r := other.tryNext(); r.code != 201 {
		t.Errorf("another account: %d %s", r.code, r.body)
	}
	clock.by.Store(int64(wait - time.Since(began) - 5*time.Second))
	expect(t, "too early", c.at(f).tryNext(), 429, "rateLimited")
	clock.by.Store(int64(wait))
	if r := c.at(f).tryNext(); r.code != 201 {
		t.Errorf("after %v: %d %s", wait, r.code, r.body)
	}
}

// TestLimitsHoldAtOnce: an account that orders at two servers at once, or at one that is
// alone, gets as many orders as it may have, and no more.
func TestLimitsHoldAtOnce(t *testing.T) {
	const external = "https://acme.corp.example"
	t.Run("two", func(t *testing.T) {
		w := newWorld(t, limitedTo)
		limitHolds(t, w, w.serve(external), w.serve(external))
	})
	t.Run("one", func(t *testing.T) {
		w := newWorld(t, limitedTo)
		limitHolds(t, w, w.serve(external, func(cfg *acmeserver.Config) { cfg.Sole = true }))
	})
}

const mostPending = 5

func limitedTo(e *v1alpha1.AcmeEndpoint) { e.Spec.Limits.PendingOrdersPerAccount = mostPending }

func limitHolds(t *testing.T, w *world, servers ...*front) {
	const tries = 24
	c := w.registered(1)
	answers := make(chan *response, tries)
	for n := range tries {
		go func() {
			for {
				r := c.at(servers[n%len(servers)]).tryNext()
				if r.code != 503 { // each asks clients to try again while the other comes before
					answers <- r
					return
				}
			}
		}()
	}
	made := 0
	for range tries {
		r := <-answers
		if r.code == 201 {
			made++
			continue
		}
		expect(t, "too many orders", r, 429, "rateLimited")
	}
	stored := &v1alpha1.AcmeOrderList{}
	if err := w.api.List(t.Context(), stored, inNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	if made != mostPending || len(stored.Items) != mostPending {
		t.Errorf("%d orders were made, and %d are stored: want %d", made, len(stored.Items), mostPending)
	}
}

// TestAccountLimitHoldsAtOnce: clients that register at once, at two servers, do not pass the
// limit of an endpoint.
func TestAccountLimitHoldsAtOnce(t *testing.T) {
	const most, tries = 3, 12
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Limits.MaxAccounts = most })
	const external = "https://acme.corp.example"
	servers := []*front{w.serve(external), w.serve(external)}
	codes := make(chan int, tries)
	for n := range tries {
		c := w.client().at(servers[n%2])
		go func() {
			for {
				code := c.post(c.url("new-account"), map[string]any{}).code
				if code != 503 { // each asks clients to try again while the other comes before
					codes <- code
					return
				}
			}
		}()
	}
	made := 0
	for range tries {
		if code := <-codes; code == 201 {
			made++
		} else if code != 429 {
			t.Errorf("the answer is %d", code)
		}
	}
	if made != most {
		t.Errorf("%d accounts were made, want %d", made, most)
	}
}

// TestTooManyWait: an account whose orders wait for their approval can order again when
// one does not wait any more.
func TestTooManyWait(t *testing.T) {
	w := newWorld(t, externalKeyOnly, func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Limits.WaitingOrdersPerAccount = 1
		e.Spec.Approval.FinalizeWait.Duration = time.Second
	})
	c := w.proven()
	url, _ := c.order("a.corp.example")
	if r := c.post(url+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")}); r.code != 200 {
		t.Fatalf("finalize: %d %s", r.code, r.body)
	}
	if wait := c.limited("an order waits"); wait > time.Minute {
		t.Errorf("the client is told to wait for %v", wait)
	}
	w.issue(url)
	apitest.Eventually(t, "no order waits", func() bool { return c.tryNext().code == 201 })
}

// proven returns a client that need not prove control of names.
func (w *world) proven() *raw {
	w.t.Helper()
	mac := w.externalKey("fleet", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	c := w.client()
	c.register(map[string]any{"externalAccountBinding": c.binding(w.namespace+".fleet", mac)})
	return c
}

// TestTooManyFailures: a name whose challenges fail is refused for a while, and others
// are not.
func TestTooManyFailures(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Limits.FailedValidationsPerHour = 2 })
	clock, f := w.serveLater()
	c := w.registered(1)
	for range 2 {
		var url string
		apitest.Eventually(t, "a new order is made", func() bool { // the failed one is not given again
			r := c.tryOrder("a.corp.example")
			url = r.header.Get("Location")
			return r.code == 201 && acmeorder.OrderState(w.stored(url), time.Now()) == rfc8555.StatePending
		})
		o := w.stored(url)
		o.Status.Authorizations[0].Challenges[0].State = rfc8555.StateProcessing
		failed := acmeorder.Attempt{Problem: rfc8555.NewProblem(403, rfc8555.ProblemIncorrectResponse, "wrong"), Final: true}
		o.Status = *acmeorder.RecordAttempt(o, acmeorder.Position{}, failed, &w.endpoint.Spec, time.Now())
		if err := w.api.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var refused *response
	apitest.Eventually(t, "the failures are known", func() bool { refused = c.tryOrder("a.corp.example"); return refused.code != 201 })
	expect(t, "a name that has failed", refused, 429, "rateLimited")
	seconds, _ := strconv.Atoi(refused.header.Get("Retry-After"))
	if seconds < 3000 || seconds > 3601 {
		t.Errorf("Retry-After is %q", refused.header.Get("Retry-After"))
	}
	if r := c.tryOrder("b.corp.example"); r.code != 201 {
		t.Errorf("another name: %d %s", r.code, r.body)
	}
	clock.by.Store(int64(time.Duration(seconds) * time.Second))
	if r := c.at(f).tryOrder("a.corp.example"); r.code != 201 {
		t.Errorf("after %d seconds: %d %s", seconds, r.code, r.body)
	}
}

// TestQuotaOfNamespace: what the API refuses by a ResourceQuota is a limit.
func TestQuotaOfNamespace(t *testing.T) {
	w := newWorld(t)
	direct, err := client.NewWithWatch(w.shared.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.serve("", func(cfg *acmeserver.Config) {
		cfg.Client = interceptor.NewClient(direct, interceptor.Funcs{
			Create: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if _, ok := o.(*v1alpha1.AcmeOrder); ok {
					return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("acmeorders").GroupResource(), o.GetName(), fmt.Errorf("exceeded quota: orders, requested: count/acmeorders.certplane.dev=1, used: 10, limited: 10"))
				}
				return api.Create(ctx, o, options...)
			},
		})
	})
	if wait := w.registered(1).limited("the quota of the namespace is used up"); wait > time.Minute {
		t.Errorf("the client is told to wait for %v", wait)
	}
}

// TestExpiry: what has expired is so for a client a minute later, whichever process it
// asks, though nobody has stored that.
func TestExpiry(t *testing.T) {
	w := newWorld(t, externalKeyOnly)
	c := w.proven()
	clocks, fronts := make([]*later, 2), make([]*front, 2)
	for i := range fronts {
		clocks[i], fronts[i] = w.serveLater()
	}
	ready, order := c.order("a.corp.example")
	authz := order["authorizations"].([]any)[0].(string)
	expires, err := time.Parse(time.RFC3339, order["expires"].(string))
	if err != nil {
		t.Fatal(err)
	}
	path := func(url string) string { return url[len(w.fronts[0].external):] }
	for i, f := range fronts {
		clocks[i].by.Store(int64(time.Until(expires.Add(acmeorder.Lateness - 20*time.Second))))
		one := c.at(f)
		one.kid = f.external + path(c.kid)
		if r := one.post(f.external+path(ready), nil); r.json(t)["status"] != "ready" {
			t.Errorf("before: %d %s", r.code, r.body)
		}
		clocks[i].by.Store(int64(time.Until(expires.Add(acmeorder.Lateness + time.Second))))
		one.nonce = ""
		shown := one.post(f.external+path(ready), nil).json(t)
		if shown["status"] != "invalid" || shown["error"] == nil {
			t.Errorf("the order is %v", shown)
		}
		if shown := one.post(f.external+path(authz), nil).json(t); shown["status"] != "expired" {
			t.Errorf("its authorization is %v", shown)
		}
		expect(t, "finalize", one.post(f.external+path(ready)+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")}), 403, "orderNotReady")
	}
	if o := w.stored(ready); o.Status.State != v1alpha1.AcmeOrderOpen {
		t.Errorf("%q is stored", o.Status.State)
	}
}

// TestFinalizationsThatWait: so many finalizations wait for their certificates; one more
// is answered at once, and all get theirs.
func TestFinalizationsThatWait(t *testing.T) {
	const most = 64
	w := newWorld(t, externalKeyOnly, func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Limits.PendingOrdersPerAccount = 2 * most
		e.Spec.Approval.FinalizeWait.Duration = 20 * time.Second
	})
	c := w.proven()
	urls, answers := make([]string, most+1), make(chan *response, most)
	finalize := func(i int) *response {
		one := *c
		one.nonce = ""
		return one.post(urls[i]+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), fmt.Sprintf("f%d.corp.example", i))})
	}
	for i := range urls {
		urls[i], _ = c.order(fmt.Sprintf("f%d.corp.example", i))
	}
	for i := range most {
		go func() { answers <- finalize(i) }()
	}
	for _, url := range urls[:most] {
		apitest.Eventually(t, "all are finalized", func() bool { return w.stored(url).Status.State == v1alpha1.AcmeOrderProcessing })
	}
	if r := finalize(most); r.code != 200 || r.json(t)["status"] != "processing" {
		t.Errorf("one more: %d %s", r.code, r.body)
	}
	if n := len(answers); n > 0 {
		t.Errorf("%d were answered before", n)
	}
	for _, url := range urls {
		w.act(t.Context(), w.stored(url))
	}
	for range most {
		if r := <-answers; r.code != 200 || r.json(t)["status"] != "valid" {
			t.Errorf("a finalization that has waited: %d %s", r.code, r.body)
		}
	}
}
