package acme_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// on answers the requests of a kind with a reply.
func on(kind acmetest.Kind, reply acmetest.Reply) func(acmetest.Call) *acmetest.Reply {
	return func(c acmetest.Call) *acmetest.Reply {
		if c.Kind == kind {
			return &reply
		}
		return nil
	}
}

// What a server answers to a new order ends as an error that says what came, and
// is asked for once.
func TestRefusedOrders(t *testing.T) {
	long := strings.Repeat("x", 100000)
	for _, test := range []struct {
		reason string
		reply  acmetest.Reply
		status int // of the problem; 0 if it is none
		want   string
	}{
		{"a refusal", *acmetest.Refused(403, rfc8555.ProblemRejectedIdentifier, "no"), 403, "403 urn:ietf:params:acme:error:rejectedIdentifier: no"},
		{"a refusal with code 400", *acmetest.Refused(400, rfc8555.ProblemMalformed, "no"), 400, "400 urn:ietf:params:acme:error:malformed: no"},
		{"JSON of another protocol", acmetest.Reply{Status: 403, Body: `{"type":"x","detail":"internal</html>"}`, Header: http.Header{"Content-Type": {"application/json"}}}, 403, "403 : the answer is not a problem document of an ACME server: application/json of 39 bytes"},
		{"a problem with another media type", acmetest.Reply{Status: 403, Body: `{"type":"urn:ietf:params:acme:error:caa","detail":"no"}`}, 403, "403 urn:ietf:params:acme:error:caa: no"},
		{"control characters", *acmetest.Refused(403, rfc8555.ProblemCAA, "a\nb\x1b[31m"), 403, "403 urn:ietf:params:acme:error:caa: a b [31m"},
		{"a page", acmetest.Reply{Status: 502, Body: "<html>internal</html>"}, 502, "502 : the answer is not a problem document of an ACME server: text/html of 21 bytes"},
		{"a redirect", acmetest.Reply{Status: 307, Header: http.Header{"Location": {"https://other.test/"}}}, 307, "307 : the server redirects, which is not allowed for signed requests"},
		{"a success that is none", acmetest.Reply{Status: 200, Body: "<html>internal</html>", Header: http.Header{"Location": {"/order/1"}}}, 0, "is not the JSON of an ACME server"},
		{"no Location", acmetest.Reply{Header: http.Header{"Location": nil}}, 0, "has no Location"},
		{"a Location without TLS", acmetest.Reply{Header: http.Header{"Location": {"http://ca.example.com/order/1"}}}, 0, "does not begin with https://"},
		{"a Location with a user", acmetest.Reply{Header: http.Header{"Location": {"https://a:secret@ca.example.com/order/1"}}}, 0, "must have a host and no user"},
		{"a Location that is too long", acmetest.Reply{Header: http.Header{"Location": {"https://ca.example.com/" + long}}}, 0, "a URL that cannot be parsed"},
		{"an order that leads elsewhere", acmetest.Reply{Status: 201, Header: http.Header{"Location": {"/order/1"}}, Body: `{"status":"pending","authorizations":["file:///etc/passwd"]}`}, 0, "does not begin with https://"},
		{"lost before", acmetest.Reply{Lost: true}, 0, "EOF"},
		{"lost after", acmetest.Reply{Lost: true, Acts: true}, 0, "EOF"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			s := acmetest.Start(t, acmetest.Options{})
			c := newClient(t, newPool(t, nil), s)
			s.Change(func(o *acmetest.Options) { o.Hook = on(acmetest.NewOrder, test.reply) })
			_, err := c.NewOrder(t.Context(), names("a.example.com"))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "internal</html>") || strings.Contains(err.Error(), "secret") || len(err.Error()) > 5000 {
				t.Errorf("%v", err)
			}
			if test.status != 0 && problem(t, err).Status != test.status {
				t.Errorf("%+v", problem(t, err))
			}
			if got := s.Count(acmetest.NewOrder); got != 1 {
				t.Errorf("%d requests", got)
			}
		})
	}
}

// A problem is bounded, whatever a server sends.
func TestHugeProblem(t *testing.T) {
	p := &rfc8555.Problem{Type: rfc8555.Namespace + strings.Repeat("x", 1<<16), Detail: strings.Repeat("é", 1<<16)}
	for range 1000 {
		p.Subproblems = append(p.Subproblems, rfc8555.Subproblem{Detail: strings.Repeat("y", 1000), Identifier: rfc8555.Identifier{Value: strings.Repeat("z", 1000)}})
	}
	s := acmetest.Start(t, acmetest.Options{})
	c := newClient(t, newPool(t, nil), s)
	s.Change(func(o *acmetest.Options) { o.Hook = on(acmetest.NewOrder, acmetest.Reply{Status: 400, Problem: p}) })
	_, err := c.NewOrder(t.Context(), names("a.example.com"))
	if got := len(err.Error()); got > 100000 {
		t.Errorf("an error of %d bytes", got)
	}
}

// Nonces that the server refuses are replaced, for as long as that is worth it.
func TestBadNonces(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{})
	c := newClient(t, newPool(t, nil), s)
	for range 3 {
		s.ForgetNonces()
		if _, err := c.NewOrder(t.Context(), names("a.example.com")); err != nil {
			t.Error(err)
		}
	}
	before := s.Count(acmetest.NewOrder)
	s.Change(func(o *acmetest.Options) {
		o.Hook = on(acmetest.NewOrder, *acmetest.Refused(400, rfc8555.ProblemBadNonce, "no"))
	})
	_, err := c.NewOrder(t.Context(), names("a.example.com"))
	if !problem(t, err).HasType(rfc8555.ProblemBadNonce) || s.Count(acmetest.NewOrder) != before+6 {
		t.Errorf("%v after %d requests", err, s.Count(acmetest.NewOrder)-before)
	}
	s.Change(func(o *acmetest.Options) {
		o.Hook = on(acmetest.NewNonce, acmetest.Reply{Header: http.Header{"Replay-Nonce": nil}})
	})
	s.ForgetNonces()
	if _, err := unregistered(t, newPool(t, nil), s, newKey(t)).FindAccount(t.Context()); err == nil || !strings.Contains(err.Error(), "has sent none") {
		t.Errorf("a server without nonces: %v", err)
	}
}

// Profiles are checked before an order is made.
func TestProfiles(t *testing.T) {
	for _, test := range []struct {
		reason, profile, want string
		offered               map[string]string
	}{
		{"none offered", "short", "acme: certificate authority does not support profiles", nil},
		{"another offered", "short", "acme: certificate authority does not advertise a profile with name short", map[string]string{"long": ""}},
		{"offered", "short", "", map[string]string{"short": "six days"}},
	} {
		s := acmetest.Start(t, acmetest.Options{Profiles: test.offered})
		c := newClient(t, newPool(t, nil), s)
		want := names("a.example.com")
		want.Profile = test.profile
		order, err := c.NewOrder(t.Context(), want)
		if test.want == "" {
			if err != nil || order.Profile != test.profile {
				t.Errorf("%s: %+v, %v", test.reason, order, err)
			}
			continue
		}
		if !errors.As(err, new(*acme.ProfileError)) || err.Error() != test.want || s.Count(acmetest.NewOrder) != 0 {
			t.Errorf("%s: %v", test.reason, err)
		}
	}
}

// An order says what it replaces where the server wants to know, and is made
// anyway.
func TestReplaces(t *testing.T) {
	for _, test := range []struct {
		reason   string
		without  bool // no renewal information
		reply    *acmetest.Reply
		always   bool
		requests int
		want     string
		fails    bool
	}{
		{reason: "welcome", requests: 1, want: "AA.BB"},
		{reason: "not known", without: true, requests: 1},
		{reason: "replaced", reply: acmetest.Refused(409, rfc8555.ProblemAlreadyReplaced, "x"), requests: 2},
		{reason: "malformed", reply: acmetest.Refused(400, rfc8555.ProblemMalformed, "unknown field Replaces"), requests: 2},
		{reason: "of another account", reply: acmetest.Refused(403, rfc8555.ProblemUnauthorized, "the certificate is of another account"), requests: 2},
		{reason: "not found", reply: acmetest.Refused(404, rfc8555.ProblemMalformed, "there is no certificate AAA.BBB"), requests: 2},
		{reason: "a text that says nothing", reply: acmetest.Refused(400, rfc8555.ProblemMalformed, "the request is invalid"), requests: 2},
		{reason: "refused for another reason, too", reply: acmetest.Refused(400, rfc8555.ProblemRejectedIdentifier, "x"), always: true, requests: 2, fails: true},
		{reason: "too many requests", reply: acmetest.Refused(429, rfc8555.ProblemRateLimited, "x"), requests: 1, fails: true},
		{reason: "out of order", reply: acmetest.Refused(500, rfc8555.ProblemServerInternal, "x"), requests: 1, fails: true},
	} {
		s := acmetest.Start(t, acmetest.Options{NoRenewalInfo: test.without})
		c := newClient(t, newPool(t, nil), s)
		s.Change(func(o *acmetest.Options) {
			o.Hook = func(call acmetest.Call) *acmetest.Reply {
				if call.Kind == acmetest.NewOrder && (call.N == 1 || test.always) {
					return test.reply
				}
				return nil
			}
		})
		request := names("a.example.com")
		request.Replaces = "AA.BB"
		order, err := c.NewOrder(t.Context(), request)
		if (err != nil) != test.fails || order.Replaces != test.want || s.Count(acmetest.NewOrder) != test.requests {
			t.Errorf("%s: %+v, %v after %d requests", test.reason, order, err, s.Count(acmetest.NewOrder))
		}
	}
}

func TestRenewalInfo(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := acmetest.Start(t, acmetest.Options{Renewal: func(id string) (time.Time, time.Time) {
		if id == "AA.BB" {
			return now, now.Add(time.Hour)
		}
		return now, now
	}})
	c := newClient(t, newPool(t, nil), s)
	info, err := c.RenewalInfo(t.Context(), "AA.BB")
	if err != nil || !info.Start.Equal(now) || !info.End.Equal(now.Add(time.Hour)) || info.RetryAfter.IsZero() {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := c.RenewalInfo(t.Context(), "CC.DD"); err == nil {
		t.Error("a window that ends as it starts is accepted")
	}
	none := acmetest.Start(t, acmetest.Options{NoRenewalInfo: true})
	if _, err := newClient(t, newPool(t, nil), none).RenewalInfo(t.Context(), "AA.BB"); !errors.Is(err, acme.ErrNoRenewalInfo) {
		t.Error(err)
	}
}

// Finalize needs no Location, and does not wait.
func TestFinalizeWithoutLocation(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{Processing: 1000, Hook: on(acmetest.Finalize, acmetest.Reply{Header: http.Header{"Location": nil}})})
	c := newClient(t, newPool(t, nil), s)
	order, err := c.NewOrder(t.Context(), names("a.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finalize(t.Context(), order.Finalize, order.URL, newCSR(t, "a.example.com")); !problem(t, err).HasType(rfc8555.ProblemOrderNotReady) {
		t.Fatal(err)
	}
	s.SetAuthorization(order.Authorizations[0], rfc8555.StateValid)
	got, err := c.Finalize(t.Context(), order.Finalize, order.URL, newCSR(t, "a.example.com"))
	if err != nil || got.URL != order.URL || got.Status != rfc8555.StateProcessing || s.Count(acmetest.Order) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A key is replaced by another one, with which alone the account works then.
func TestRollOver(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{})
	clock := clocktesting.NewFakePassiveClock(start)
	p, old, next := newPool(t, func(cfg *acme.PoolConfig) { cfg.Clock = clock }), newKey(t), newKey(t)
	c := unregistered(t, p, s, old)
	account, err := c.Register(t.Context(), acme.Registration{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RollOver(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetContact(t.Context(), []string{"mailto:b@example.com"}); err != nil || len(s.Accounts()[account.URL]) != 1 {
		t.Errorf("with the new key: %v", err)
	}
	config := acme.Config{Directory: s.Directory(), Key: old, CABundle: s.CABundle(), Account: account.URL}
	other, err := p.Client(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.NewOrder(t.Context(), names("a.example.com")); err != nil {
		t.Errorf("a client with the old key: %v", err)
	}
	clock.SetTime(start.Add(10 * time.Minute))
	if _, err := other.NewOrder(t.Context(), names("a.example.com")); err == nil {
		t.Error("the old key still works")
	}
	if found, err := unregistered(t, p, s, next).FindAccount(t.Context()); err != nil || found.URL != account.URL {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := unregistered(t, p, s, old).FindAccount(t.Context()); !problem(t, err).HasType(rfc8555.ProblemAccountDoesNotExist) {
		t.Error(err)
	}
	if err := c.RollOver(t.Context(), next); err == nil {
		t.Error("a key that an account has is accepted")
	}
}
