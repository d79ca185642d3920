package orders

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Orders of all kinds get their certificates, with one order of the CA each, and
// leave no Challenges.
func TestIssues(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 63) + ".example.com"
	tests := []struct {
		reason     string
		key        crypto.Signer
		values     []string
		challenges []string
	}{
		{"a name", newKey(t), []string{"a.example.com"}, []string{"HTTP-01 a.example.com"}},
		{"two names", newKey(t), []string{"b.example.com", "a.example.com"}, []string{"HTTP-01 a.example.com", "HTTP-01 b.example.com"}},
		{"apex and wildcard", newKey(t), []string{"example.com", "*.example.com"}, []string{"DNS-01 example.com", "HTTP-01 example.com"}},
		{"an address", newKey(t), []string{"192.0.2.1"}, []string{"HTTP-01 192.0.2.1"}},
		{"a name and an address", newKey(t), []string{"a.example.com", "2001:db8::1"}, []string{"HTTP-01 2001:db8::1", "HTTP-01 a.example.com"}},
		{"the longest label, an RSA key", rsaKey, []string{"x.example.com", long}, []string{"HTTP-01 " + long, "HTTP-01 x.example.com"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, acmetest.Options{})
			w.newOrder(t, "web", tc.key, nil, tc.values...)
			var made []string
			o := w.until(t, "web", "has Challenges", func(*acmev1.Order) bool { return len(w.challenges(t)) > 0 })
			for _, c := range w.challenges(t) {
				made = append(made, string(c.Spec.Type)+" "+c.Spec.DNSName)
				wildcard := c.Spec.Type == "DNS-01"
				if c.Spec.Wildcard != wildcard || (c.Spec.Key == w.acme.KeyAuthorization(c.Spec.Token)) != !wildcard || len(c.Spec.Key) == 0 {
					t.Errorf("%+v", c.Spec)
				}
				if !metav1.IsControlledBy(&c, o) || len(c.Labels)+len(c.Annotations) > 0 {
					t.Errorf("%+v", c.ObjectMeta)
				}
			}
			slices.Sort(made)
			equal(t, "Challenges", made, tc.challenges)
			w.issued(t, w.settle(t, "web"), tc.key)
			w.idle(t, "web")
			if left := w.challenges(t); len(left) > 0 || w.ca.Count(acmetest.NewOrder) != 1 || w.ca.Count(acmetest.Finalize) != 1 {
				t.Errorf("%d Challenges, %d orders, finalized %d times", len(left), w.ca.Count(acmetest.NewOrder), w.ca.Count(acmetest.Finalize))
			}
			told := w.told()
			if !has(told, "Normal Complete Order completed successfully") || !has(told, `Normal Created Created Challenge resource "web-`) ||
				!has(told, `for domain "`+strings.TrimPrefix(tc.values[0], "*.")+`"`) {
				t.Errorf("%q", told)
			}
			if len(w.memories.of) != 0 {
				t.Error("the Order is still remembered")
			}
		})
	}
}

// Names that are authorized already need no Challenges.
func TestAuthorizedBefore(t *testing.T) {
	w := newWorld(t, acmetest.Options{ReuseAuthorizations: true})
	key := newKey(t)
	w.newOrder(t, "first", key, nil, "a.example.com")
	w.issued(t, w.settle(t, "first"), key)
	w.idle(t, "first")
	w.told()
	w.newOrder(t, "second", key, nil, "a.example.com")
	w.issued(t, w.settle(t, "second"), key)
	if told := w.told(); has(told, "Challenge") {
		t.Errorf("%q", told)
	}
}

// What the CA refuses for good fails the Order, with what the CA says.
func TestRefused(t *testing.T) {
	refuse := func(kind acmetest.Kind, status int, problem, detail string) acmetest.Options {
		return acmetest.Options{Hook: reply(kind, acmetest.Refused(status, problem, detail))}
	}
	profile := func(o *acmev1.Order) { o.Spec.Profile = "unsupported-profile" }
	const urn = "urn:ietf:params:acme:error:"
	tests := []struct {
		reason  string
		options acmetest.Options
		change  func(*acmev1.Order)
		state   acmev1.State
		want    string
	}{
		{"a name that may not be", refuse(acmetest.NewOrder, 400, "rejectedIdentifier", "google.com is blocked"), nil,
			acmev1.Errored, "Failed to create Order: 400 " + urn + "rejectedIdentifier: google.com is blocked"},
		{"a profile at a CA without any", acmetest.Options{}, profile,
			acmev1.Errored, "Failed to create Order: acme: certificate authority does not support profiles"},
		{"a profile that does not exist", acmetest.Options{Profiles: map[string]string{"classic": "x"}}, profile,
			acmev1.Errored, "Failed to create Order: acme: certificate authority does not advertise a profile with name unsupported-profile"},
		{"an order that is gone", refuse(acmetest.Order, 404, "malformed", "no such order"), nil,
			acmev1.Expired, "The CA no longer knows the order: 404 " + urn + "malformed: no such order"},
		{"an order that may not be read", refuse(acmetest.Order, 400, "malformed", "nonsense"), nil,
			acmev1.Errored, "Failed to retrieve Order resource: 400 " + urn + "malformed: nonsense"},
		{"an authorization that may not be read", refuse(acmetest.Authorization, 404, "malformed", "gone"), nil,
			acmev1.Errored, "Failed to fetch authorization: 404 " + urn + "malformed: gone"},
		{"a CSR", refuse(acmetest.Finalize, 400, "badCSR", "weak key"), nil,
			acmev1.Errored, "Failed to finalize Order: 400 " + urn + "badCSR: weak key"},
		{"a certificate that is gone", refuse(acmetest.Certificate, 404, "malformed", "gone"), nil,
			acmev1.Errored, "Failed to retrieve signed certificate: 404 " + urn + "malformed: gone"},
		{"a request that cannot be parsed", acmetest.Options{}, func(o *acmev1.Order) { o.Spec.Request = []byte("x") },
			acmev1.Errored, "Failed to finalize Order: parsing spec.request: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, tc.options)
			w.newOrder(t, "web", newKey(t), tc.change, "a.example.com")
			o := w.settle(t, "web")
			if o.Status.State != tc.state || !strings.HasPrefix(o.Status.Reason, tc.want) || o.Status.FailureTime == nil {
				t.Errorf("%+v", o.Status)
			}
			if told := w.told(); !has(told, "Warning Failed "+tc.want) {
				t.Errorf("%q", told)
			}
		})
	}
}

// Whatever is temporary does not fail an Order, and never makes a second order
// of the CA out of one.
func TestSurvives(t *testing.T) {
	lost, lostAfter := &acmetest.Reply{Lost: true}, &acmetest.Reply{Lost: true, Acts: true}
	unavailable := &acmetest.Reply{Status: 503, Header: http.Header{"Retry-After": {"120"}}}
	html := &acmetest.Reply{Status: 502, Body: "<html>bad gateway</html>"}
	tests := []struct {
		reason string
		hook   func(acmetest.Call) *acmetest.Reply
		least  time.Duration
	}{
		{"finalize refused: orderNotReady", reply(acmetest.Finalize, acmetest.Refused(403, "orderNotReady", "not yet"), 1, 2), 0},
		{"finalize refused: rate limit", reply(acmetest.Finalize, acmetest.RateLimited("300", "slow down"), 1), 5 * time.Minute},
		{"finalize refused: not available", reply(acmetest.Finalize, unavailable, 1), 2 * time.Minute},
		{"finalize refused: unauthorized", reply(acmetest.Finalize, acmetest.Refused(403, "unauthorized", "authz expired"), 1), 0},
		{"finalize without Location", reply(acmetest.Finalize, &acmetest.Reply{Acts: true, Header: http.Header{"Location": nil}}, 1), 0},
		{"finalize cut before", reply(acmetest.Finalize, lost, 1), 0},
		{"finalize cut after", reply(acmetest.Finalize, lostAfter, 1), 0},
		{"finalize answered by a proxy", reply(acmetest.Finalize, html, 1), 0},
		{"new order: rate limit", reply(acmetest.NewOrder, acmetest.RateLimited("7200", "too many new orders"), 1), 2 * time.Hour},
		{"new order: rate limit that does not say when", reply(acmetest.NewOrder, acmetest.RateLimited("", "too many"), 1), time.Hour},
		{"new order: not available", reply(acmetest.NewOrder, &acmetest.Reply{Status: 500}, 1, 2, 3), 0},
		{"new order: account unknown for a moment", reply(acmetest.NewOrder, acmetest.Refused(400, "accountDoesNotExist", "who?"), 1), time.Minute},
		{"reading: proxies and cuts", reply(acmetest.Order, html, 1, 2), 0},
		{"authorizations: cut", reply(acmetest.Authorization, lost, 1), 0},
		{"authorizations: rate limit", reply(acmetest.Authorization, acmetest.RateLimited("60", "slow"), 1), time.Minute},
		{"the certificate: cut, not available", reply(acmetest.Certificate, lost, 1, 2), 0},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, acmetest.Options{Hook: tc.hook})
			began, key := w.clock.Now(), newKey(t)
			w.newOrder(t, "web", key, nil, "a.example.com")
			w.issued(t, w.settle(t, "web"), key)
			if took := w.clock.Now().Sub(began); took < tc.least || took > tc.least+15*time.Minute {
				t.Errorf("it took %v", took)
			}
			made := 0
			for _, c := range w.ca.Calls(acmetest.NewOrder) {
				if tc.hook(c) == nil {
					made++
				}
			}
			acted := 0
			for _, c := range w.ca.Calls(acmetest.Finalize) {
				if instead := tc.hook(c); instead == nil || instead.Acts {
					acted++
				}
			}
			if made != 1 || acted != 1 {
				t.Errorf("%d orders, finalized %d times", made, acted)
			}
		})
	}
}

// An authorization that was valid from the start can be over when the CA has to
// issue. That is found out, and said.
func TestAuthorizationLost(t *testing.T) {
	w := newWorld(t, acmetest.Options{ReuseAuthorizations: true})
	key := newKey(t)
	w.newOrder(t, "first", key, nil, "a.example.com")
	w.issued(t, w.settle(t, "first"), key)
	w.ca.Change(func(o *acmetest.Options) {
		o.Hook = reply(acmetest.Finalize, acmetest.Refused(403, "unauthorized", "no"), 2)
	})
	w.newOrder(t, "second", key, nil, "a.example.com")
	o := w.until(t, "second", "is ready", func(o *acmev1.Order) bool {
		return len(o.Status.Authorizations) > 0 && o.Status.Authorizations[0].Identifier != ""
	})
	w.ca.SetAuthorization(o.Status.Authorizations[0].URL, "deactivated")
	o = w.settle(t, "second")
	if o.Status.State != acmev1.Invalid || !strings.Contains(o.Status.Reason, "authorization for a.example.com is invalid") || w.ca.Count(acmetest.Finalize) != 2 {
		t.Errorf("finalized %d times: %+v", w.ca.Count(acmetest.Finalize), o.Status)
	}
}

// The Order says until when it waits because of a limit, and that is no failure.
func TestLimitIsShown(t *testing.T) {
	w := newWorld(t, acmetest.Options{Hook: reply(acmetest.NewOrder, acmetest.RateLimited("7200", "too many new orders"), 1)})
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	o := w.idle(t, "web")
	if !strings.HasPrefix(o.Status.Reason, "waiting until ") || !strings.Contains(o.Status.Reason, "because the CA limits new orders: ") ||
		!strings.Contains(o.Status.Reason, "too many new orders") || o.Status.State != "" || o.Status.FailureTime != nil {
		t.Errorf("%+v", o.Status)
	}
	version := o.ResourceVersion
	for range 5 {
		w.step(t, "web")
	}
	if o := w.order(t, "web"); o.ResourceVersion != version || w.ca.Count(acmetest.NewOrder) != 1 {
		t.Errorf("the status changes while it waits: %+v", o.Status)
	}
	if told := w.told(); len(told) != 1 || !has(told, "Warning RateLimited waiting until") {
		t.Errorf("%q", told)
	}
}

// The CA can need minutes to issue; no worker waits for it.
func TestProcessing(t *testing.T) {
	for _, retryAfter := range []string{"", "30"} {
		w := newWorld(t, acmetest.Options{Processing: 12, RetryAfter: retryAfter})
		began, key := w.clock.Now(), newKey(t)
		w.newOrder(t, "web", key, nil, "a.example.com")
		w.until(t, "web", "is processed", func(o *acmev1.Order) bool { return o.Status.State == acmev1.Processing })
		o := w.until(t, "web", "says so", func(o *acmev1.Order) bool { return strings.Contains(o.Status.Reason, "to issue the certificate") })
		w.issued(t, w.settle(t, "web"), key)
		if took := w.clock.Now().Sub(began); took < 2*time.Minute || took > 10*time.Minute || w.ca.Count(acmetest.Finalize) != 1 || w.ca.Count(acmetest.Order) > 20 {
			t.Errorf("%v, read %d times, finalized %d times; %+v", took, w.ca.Count(acmetest.Order), w.ca.Count(acmetest.Finalize), o.Status)
		}
	}
}

// An order that stays pending although all challenges are valid is polled.
func TestPendingThoughValid(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	stays := true
	w.ca.Change(func(o *acmetest.Options) {
		o.Hook = func(c acmetest.Call) *acmetest.Reply {
			if c.Kind != acmetest.Order || !stays {
				return nil
			}
			order := w.order(t, "web")
			return &acmetest.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"status":"pending","identifiers":[{"type":"dns","value":"a.example.com"}],` +
				`"authorizations":["` + order.Status.Authorizations[0].URL + `"],"finalize":"` + order.Status.FinalizeURL + `"}`}
		}
	})
	key := newKey(t)
	w.newOrder(t, "web", key, nil, "a.example.com")
	w.until(t, "web", "is polled", func(*acmev1.Order) bool { return w.ca.Count(acmetest.Order) >= 8 })
	if o := w.order(t, "web"); o.Status.State != acmev1.Pending || !strings.Contains(o.Status.Reason, "waiting for the CA") {
		t.Errorf("%+v", o.Status)
	}
	stays = false
	w.issued(t, w.settle(t, "web"), key)
}

// A challenge that fails ends the Order, whatever the CA says of the order. The
// authorizations that nobody needs any more are given back.
func TestFailedChallenge(t *testing.T) {
	w := newWorld(t, acmetest.Options{Validate: func(v acmetest.Validation) acmetest.Verdict {
		if v.Identifier.Value == "b.example.com" {
			return acmetest.Verdict{Problem: &rfc8555.Problem{Type: rfc8555.Namespace + "connection", Detail: "192.0.2.1: refused"}}
		}
		return acmetest.Verdict{Pending: true}
	}})
	w.newOrder(t, "web", newKey(t), nil, "a.example.com", "b.example.com", "c.example.com")
	o := w.settle(t, "web")
	if o.Status.State != acmev1.Invalid || !strings.Contains(o.Status.Reason, "b.example.com") || !strings.Contains(o.Status.Reason, "192.0.2.1: refused") {
		t.Errorf("%+v", o.Status)
	}
	var deactivated int
	for _, c := range w.ca.Calls(acmetest.Authorization) {
		if strings.Contains(string(c.Payload), "deactivated") {
			deactivated++
		}
	}
	w.unsolved = true
	w.idle(t, "web")
	if left := w.challenges(t); len(left) != 1 || left[0].Spec.DNSName != "b.example.com" || deactivated != 2 {
		t.Errorf("%d Challenges are left, %d authorizations were deactivated", len(left), deactivated)
	}
}

// An order that the CA invalidates says why: from its own problem, otherwise from
// its authorizations.
func TestInvalidated(t *testing.T) {
	caa := &rfc8555.Problem{Type: rfc8555.Namespace + "caa", Detail: "CAA forbids"}
	w := newWorld(t, acmetest.Options{})
	w.unsolved = true
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	o := w.idle(t, "web")
	w.ca.SetOrder(o.Status.URL, "invalid", caa)
	w.restart()
	o = w.settle(t, "web")
	if o.Status.State != acmev1.Invalid || o.Status.Reason != "The CA says that the order is invalid: urn:ietf:params:acme:error:caa: CAA forbids" {
		t.Errorf("%+v", o.Status)
	}
	w = newWorld(t, acmetest.Options{Hook: reply(acmetest.Authorization, &acmetest.Reply{Status: 500}, 2)})
	w.unsolved = true
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	o = w.idle(t, "web")
	w.ca.SetOrder(o.Status.URL, "invalid", nil)
	w.restart()
	if o = w.settle(t, "web"); o.Status.State != acmev1.Invalid || w.ca.Count(acmetest.Authorization) != 3 {
		t.Errorf("authorizations read %d times: %+v", w.ca.Count(acmetest.Authorization), o.Status)
	}
	for _, status := range []string{"deactivated", "revoked", "expired"} {
		w := newWorld(t, acmetest.Options{})
		w.unsolved = true
		w.newOrder(t, "web", newKey(t), nil, "a.example.com")
		w.until(t, "web", "is ordered", func(o *acmev1.Order) bool { return len(o.Status.Authorizations) > 0 })
		w.ca.SetAuthorization(w.order(t, "web").Status.Authorizations[0].URL, status)
		o := w.settle(t, "web")
		if o.Status.State != acmev1.Invalid || o.Status.Authorizations[0].InitialState == "" || o.Status.Reason == "" {
			t.Errorf("%s: %+v", status, o.Status)
		}
	}
}
