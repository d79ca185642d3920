package challenge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// told returns the events as texts.
func told(r Result) []string {
	var all []string
	for _, e := range r.Events {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		all = append(all, kind+" "+e.Reason+" "+e.Note)
	}
	return all
}

func TestTexts(t *testing.T) {
	failed := errors.New("zone not found")
	for _, tc := range []struct {
		reason string
		result Result
		says   string
		events []string
	}{
		{"started", situation(dns(), Memory{}).Started(), "", []string{"Normal Started Challenge scheduled for processing"}},
		{"presented", situation(dns(), Memory{}).Presented(), "", []string{"Normal Presented Presented challenge using DNS-01 challenge mechanism"}},
		{"presented", situation(dns(http), Memory{}).Presented(), "", []string{"Normal Presented Presented challenge using HTTP-01 challenge mechanism"}},
		{"not presented", situation(dns(), Memory{}).PresentFailed(failed), "zone not found", []string{"Warning PresentError Error presenting challenge: zone not found"}},
		{"not presented again, for the same reason", situation(dns(func(ch *acmev1.Challenge) { ch.Status.Reason = "zone not found" }), Memory{}).PresentFailed(failed), "zone not found", nil},
		{"not found by the self check", situation(dns(http, presented(time.Minute)), Memory{}).CheckFailed(errors.New("wrong status code '404', expected '200'")),
			"Waiting for HTTP-01 challenge propagation: wrong status code '404', expected '200'", nil},
		{"not found for a long time", situation(dns(presented(16*time.Minute)), Memory{}).CheckFailed(errors.New("x")),
			"Waiting for DNS-01 challenge propagation: x; no self check has succeeded since 2026-11-23T08:44:00Z, and it is given up at 2026-11-24T08:44:00Z", nil},
		{"found", situation(dns(presented(0)), Memory{}).Checked(time.Minute, ""), "The self check has succeeded; waiting 1m0s before accepting DNS-01 challenge", nil},
		{"found, with a note", situation(dns(presented(0)), Memory{}).Checked(0, "the public address refuses connections"), "the public address refuses connections", nil},
		{"waits instead", situation(dns(presented(10*time.Second), unchecked(30*time.Second)), Memory{}).Delayed(), "Waiting 20s before accepting DNS-01 challenge without self-check", nil},
		{"waits for minutes", situation(dns(presented(10*time.Second), unchecked(5*time.Minute)), Memory{}).Delayed(), "Waiting 5m0s before accepting DNS-01 challenge without self-check", nil},
		{"no issuer", situation(dns(), Memory{}).IssuerMissing(errors.New(`Issuer "le" does not exist`)), `Waiting for the issuer: Issuer "le" does not exist`, nil},
		{"given up", situation(dns(presented(24*time.Hour), func(ch *acmev1.Challenge) { ch.Status.Reason = "why" }), Memory{}).GivenUp(),
			"Given up: the DNS-01 challenge was not solved by 2026-11-23T09:00:00Z: why",
			[]string{"Warning Failed Accepting challenge authorization failed: Given up: the DNS-01 challenge was not solved by 2026-11-23T09:00:00Z: why"}},
	} {
		if tc.result.Status.Reason != tc.says {
			t.Errorf("%s: reason %q, want %q", tc.reason, tc.result.Status.Reason, tc.says)
		}
		if diff := cmp.Diff(tc.events, told(tc.result)); diff != "" {
			t.Errorf("%s: events (-want +got)\n%s", tc.reason, diff)
		}
	}
}

func authz(status, own string, problems ...*rfc8555.Problem) rfc8555.Authorization {
	a := rfc8555.Authorization{
		Identifier: rfc8555.Identifier{Type: "dns", Value: "a.example.com"}, Status: status,
		Challenges: []rfc8555.Challenge{{URL: "https://ca/chall/0", Status: "pending"}, {URL: "https://ca/chall/1", Status: own}},
	}
	for _, p := range problems {
		a.Challenges[1].Error = p
	}
	return a
}

func TestAuthorization(t *testing.T) {
	nxdomain := &rfc8555.Problem{Type: rfc8555.Namespace + "dns", Detail: "NXDOMAIN looking up TXT", Status: 400}
	const verified = `Normal DomainVerified Domain "a.example.com" verified with "DNS-01" validation`
	const invalid = "acme: authorization error for a.example.com: 400 urn:ietf:params:acme:error:dns: NXDOMAIN looking up TXT"
	asked := Memory{Read: true, Accepted: now}
	long := Memory{Read: true, Accepted: now.Add(-validationTime)}
	tried := Memory{Read: true, Accepted: now.Add(-retryTime)}
	for _, tc := range []struct {
		reason    string
		presented bool
		memory    Memory
		polled    bool
		authz     rfc8555.Authorization
		state     acmev1.State
		says      string
		events    []string
		next      Step
	}{
		{"new", false, Memory{}, false, authz("pending", "pending"), acmev1.Pending, "", nil, Present},
		{"valid already", false, Memory{}, false, authz("valid", "pending"), acmev1.Valid, "Successfully authorized domain", []string{verified}, Close},
		{"own challenge valid already", false, Memory{}, false, authz("pending", "valid"), acmev1.Valid, "Successfully authorized domain", []string{verified}, Close},
		{"invalid already", false, Memory{}, false, authz("invalid", "invalid", nxdomain), acmev1.Invalid, "NXDOMAIN looking up TXT", nil, Close},
		{"revoked is not a state of Challenges", false, Memory{}, false, authz("revoked", "pending"), acmev1.Invalid,
			"Error accepting authorization: acme: authorization error for a.example.com: the CA does not say why; the authorization is revoked", nil, Close},
		{"deactivated neither", false, Memory{}, false, authz("deactivated", "deactivated"), acmev1.Invalid,
			"Error accepting authorization: acme: authorization error for a.example.com: the CA does not say why; the authorization is deactivated", nil, Close},
		{"unknown", false, Memory{}, false, authz("pending", "odd"), acmev1.Pending, "could not determine acme challenge status. retrying after applying back-off", nil, Read},
		{"another authorization", false, Memory{}, false, rfc8555.Authorization{Status: "pending"}, acmev1.Errored, "challenge was not present in authorization",
			[]string{"Warning Failed Accepting challenge authorization failed: challenge was not present in authorization"}, Close},
		{"a new process finds it being validated", true, Memory{}, false, authz("pending", "processing"), acmev1.Processing, "Waiting for the CA to validate the DNS-01 challenge", nil, Poll},
		{"a new process finds it presented", true, Memory{}, false, authz("pending", "pending"), acmev1.Pending, "", nil, Check},
		{"a new process finds it failed", true, Memory{}, false, authz("invalid", "invalid", nxdomain), acmev1.Invalid, "Error accepting authorization: " + invalid,
			[]string{"Warning Failed Accepting challenge authorization failed: " + invalid}, CleanUp},
		{"validated", true, asked, true, authz("valid", "valid"), acmev1.Valid, "Successfully authorized domain", []string{verified}, CleanUp},
		{"failed", true, asked, true, authz("invalid", "invalid", nxdomain), acmev1.Invalid, "Error accepting authorization: " + invalid,
			[]string{"Warning Failed Accepting challenge authorization failed: " + invalid}, CleanUp},
		{"failed, but the authorization stays pending", true, asked, true, authz("pending", "invalid", nxdomain), acmev1.Invalid, "Error accepting authorization: " + invalid,
			[]string{"Warning Failed Accepting challenge authorization failed: " + invalid}, CleanUp},
		{"expired", true, asked, true, authz("expired", "pending"), acmev1.Expired,
			"Error accepting authorization: acme: authorization error for a.example.com: the CA does not say why; the authorization is expired",
			[]string{"Warning Failed Accepting challenge authorization failed: acme: authorization error for a.example.com: the CA does not say why; the authorization is expired"}, CleanUp},
		{"not yet", true, asked, true, authz("pending", "processing"), acmev1.Pending, "Waiting for the CA to validate the DNS-01 challenge", nil, Poll},
		{"the CA tries again", true, asked, true, authz("pending", "processing", nxdomain), acmev1.Pending,
			"Waiting for the CA to validate the DNS-01 challenge: 400 urn:ietf:params:acme:error:dns: NXDOMAIN looking up TXT", nil, Poll},
		{"the CA has not begun for long", true, long, true, authz("pending", "pending"), acmev1.Pending, "", nil, Check},
		{"the CA has tried, and leaves the next attempt to us", true, tried, true, authz("pending", "pending", nxdomain), acmev1.Pending, "", nil, Check},
		{"not at once", true, asked, true, authz("pending", "pending", nxdomain), acmev1.Pending,
			"Waiting for the CA to validate the DNS-01 challenge: 400 urn:ietf:params:acme:error:dns: NXDOMAIN looking up TXT", nil, Poll},
		{"the CA may just begin late", true, tried, true, authz("pending", "pending"), acmev1.Pending, "Waiting for the CA to validate the DNS-01 challenge", nil, Poll},
		{"the CA takes long", true, long, true, authz("pending", "processing"), acmev1.Pending, "Waiting for the CA to validate the DNS-01 challenge", nil, Poll},
	} {
		ch := dns()
		if tc.presented {
			presented(0)(ch)
		}
		s := situation(ch, tc.memory)
		r := s.HasRead(tc.authz)
		if tc.polled {
			r = s.Polled(tc.authz)
		}
		if r.Status.State != tc.state || r.Status.Reason != tc.says {
			t.Errorf("%s: %s %q, want %s %q", tc.reason, r.Status.State, r.Status.Reason, tc.state, tc.says)
		}
		if diff := cmp.Diff(tc.events, told(r)); diff != "" {
			t.Errorf("%s: events (-want +got)\n%s", tc.reason, diff)
		}
		if next := s.After(r).Next(); next.Step != tc.next {
			t.Errorf("%s: next %s, want %s", tc.reason, next.Step, tc.next)
		}
	}
}

// Only what is the requester's fault is final.
func TestCallFailed(t *testing.T) {
	problem := func(status int, kind, detail string) *rfc8555.Problem {
		if kind != "" {
			kind = rfc8555.Namespace + kind
		}
		return &rfc8555.Problem{Type: kind, Status: status, Detail: detail}
	}
	limitedUntil := problem(429, "rateLimited", "too many failed authorizations")
	limitedUntil.RetryAfter = now.Add(90 * time.Minute)
	busy := problem(503, "", "unavailable")
	busy.RetryAfter = now.Add(time.Minute)
	for _, tc := range []struct {
		reason string
		err    error
		state  acmev1.State // after Read
		says   string
		due    time.Duration
	}{
		{"network", errors.New("dial tcp: i/o timeout"), acmev1.Pending, "Error reading the authorization: dial tcp: i/o timeout", 5 * time.Second},
		{"rate limit", limitedUntil, acmev1.Pending, "waiting until 2026-11-23T10:30:00Z because the CA limits requests: too many failed authorizations", 90 * time.Minute},
		{"rate limit, the CA does not say until when", problem(429, "", "slow down"), acmev1.Pending, "waiting until 2026-11-23T10:00:00Z because the CA limits requests: slow down", time.Hour},
		{"known rate limit", fmt.Errorf("asking: %w", &Limited{Until: now.Add(30 * time.Second), What: "new orders", Detail: "x"}), acmev1.Pending, "waiting until 2026-11-23T09:01:00Z because the CA limits new orders: x", 30 * time.Second},
		{"a year is too long", &Limited{Until: now.Add(365 * 24 * time.Hour), What: "all", Detail: "x"}, acmev1.Pending, "waiting until 2026-11-30T09:00:00Z because the CA limits all: x", 7 * 24 * time.Hour},
		{"overload", busy, acmev1.Pending, "waiting until 2026-11-23T09:01:00Z because the CA limits requests: unavailable", time.Minute},
		{"broken CA", problem(500, "serverInternal", "oops"), acmev1.Pending, "Error reading the authorization: 500 urn:ietf:params:acme:error:serverInternal: oops", 5 * time.Second},
		{"page of a proxy", problem(403, "", "<html>"), acmev1.Pending, "Error reading the authorization: 403 : <html>", 5 * time.Second},
		{"account", problem(403, "unauthorized", "no"), acmev1.Pending, "Error reading the authorization: 403 urn:ietf:params:acme:error:unauthorized: no; the account of the issuer needs attention", 5 * time.Second},
		{"malformed", problem(400, "malformed", "no"), acmev1.Expired, "Error reading the authorization: 400 urn:ietf:params:acme:error:malformed: no", 0},
		{"not found", problem(404, "malformed", "no"), acmev1.Expired, "Error reading the authorization: 404 urn:ietf:params:acme:error:malformed: no", 0},
		{"refused", problem(403, "rejectedIdentifier", "no"), acmev1.Errored, "Error reading the authorization: 403 urn:ietf:params:acme:error:rejectedIdentifier: no", 0},
	} {
		s := situation(dns(), Memory{})
		r := s.CallFailed(Read, tc.err)
		if r.Status.State != tc.state || r.Status.Reason != tc.says {
			t.Errorf("%s: %s %q, want %s %q", tc.reason, r.Status.State, r.Status.Reason, tc.state, tc.says)
		}
		if next := s.After(r).Next(); tc.due != 0 && (next.Step != Read || next.At.Sub(now) != min(tc.due, 24*time.Hour)) && tc.due < 24*time.Hour {
			t.Errorf("%s: next %+v, want Read in %s", tc.reason, next, tc.due)
		}
	}
}

// A CA that refuses to validate may have validated already, so its refusal
// counts only if there is something left to validate.
func TestAcceptRefused(t *testing.T) {
	refusal := &rfc8555.Problem{Type: rfc8555.Namespace + "malformed", Status: 400, Detail: "not pending"}
	for _, tc := range []struct {
		reason string
		authz  rfc8555.Authorization
		state  acmev1.State
		says   string
	}{
		{"valid meanwhile", authz("valid", "valid"), acmev1.Valid, "Successfully authorized domain"},
		{"pending", authz("pending", "pending"), acmev1.Expired, "Error accepting challenge: 400 urn:ietf:params:acme:error:malformed: not pending"},
		{"processing", authz("pending", "processing"), acmev1.Processing, "Waiting for the CA to validate the DNS-01 challenge"},
	} {
		s := situation(dns(presented(0)), Memory{Read: true, Passed: now})
		s = s.After(s.CallFailed(Accept, refusal))
		if next := s.Next(); next.Step != Read || !next.Due(now) {
			t.Fatalf("%s: next %+v, want Read", tc.reason, next)
		}
		r := s.HasRead(tc.authz)
		if r.Status.State != tc.state || r.Status.Reason != tc.says {
			t.Errorf("%s: %s %q, want %s %q", tc.reason, r.Status.State, r.Status.Reason, tc.state, tc.says)
		}
	}
}

// Errors of Accept come with longer and longer waits, although the
// authorization is read in between.
func TestAcceptBacksOff(t *testing.T) {
	s := situation(dns(presented(0)), Memory{Read: true, Passed: now})
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s = s.After(s.CallFailed(Accept, errors.New("reset")))
		next := s.Next()
		if got := next.At.Sub(s.Now); next.Step != Read || got != want {
			t.Fatalf("next %+v after %s, want Read after %s", next, got, want)
		}
		s.Now = next.At
		s = s.After(s.HasRead(authz("pending", "pending")))
		if next := s.Next(); next.Step != Accept || !next.Due(s.Now) {
			t.Fatalf("next %+v, want Accept", next)
		}
	}
}

func TestCheckWaits(t *testing.T) {
	for _, tc := range []struct {
		period time.Duration
		want   []time.Duration // in seconds
	}{
		{0, []time.Duration{2, 5, 10, 20, 30, 40, 50, 60, 60}},
		{10 * time.Second, []time.Duration{10, 10, 10}},
	} {
		s := situation(dns(presented(0)), Memory{Read: true})
		s.Rules.CheckPeriod = tc.period
		for i, want := range tc.want {
			s = s.After(s.CheckFailed(errors.New("x")))
			if got := s.Next().At.Sub(s.Now); got != want*time.Second {
				t.Errorf("period %s: wait %d is %s, want %ds", tc.period, i+1, got, want)
			}
		}
	}
}

func TestPollWaits(t *testing.T) {
	s := situation(dns(presented(0)), Memory{Read: true})
	s = s.After(s.AcceptedBy(rfc8555.Challenge{Status: "pending"}))
	for i, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
		if got := s.Next().At.Sub(s.Now); got != want*time.Second {
			t.Errorf("wait %d is %s, want %ds", i+1, got, want)
		}
		s = s.After(s.Polled(authz("pending", "processing")))
	}
	patient := authz("pending", "processing")
	patient.RetryAfter = now.Add(10 * 365 * 24 * time.Hour)
	if got := s.After(s.Polled(patient)).Next().At.Sub(s.Now); got != time.Hour {
		t.Errorf("a CA that says never is asked after %s, want 1h", got)
	}
}

func TestJitter(t *testing.T) {
	s := situation(dns(presented(0)), Memory{Read: true})
	s.Jitter = func(bound time.Duration) time.Duration { return bound - 1 }
	if got := s.After(s.CheckFailed(errors.New("x"))).Next().At.Sub(now); got <= 2*time.Second || got > 2200*time.Millisecond {
		t.Errorf("the wait is %s, want up to a tenth more than 2s", got)
	}
}

func TestCleanUpFailed(t *testing.T) {
	failed := errors.New("secret not found")
	for _, tc := range []struct {
		reason   string
		ch       *acmev1.Challenge
		hopeless bool
		abandon  bool
		says     string
		events   []string
	}{
		{"valid", dns(presented(0), state(acmev1.Valid)), true, false, "Error cleaning up challenge: secret not found", []string{"Warning CleanUpError Error cleaning up challenge: secret not found"}},
		{"invalid, whose reason stays visible", dns(presented(0), state(acmev1.Invalid), func(ch *acmev1.Challenge) { ch.Status.Reason = "NXDOMAIN" }), false, false,
			"Error cleaning up challenge: secret not found; the challenge had failed before: NXDOMAIN",
			[]string{"Warning CleanUpError Error cleaning up challenge: secret not found; the challenge had failed before: NXDOMAIN"}},
		{"deleted", dns(presented(0), deleted(time.Minute)), false, false, "Error cleaning up challenge: secret not found", []string{"Warning CleanUpError Error cleaning up challenge: secret not found"}},
		{"deleted long ago", dns(presented(0), deleted(10*time.Minute)), false, true, "Error cleaning up challenge: secret not found",
			[]string{`Warning CleanUpAbandoned Cleaning up was given up, remove what is left: the TXT record "hash" below a.example.com: secret not found`}},
		{"deleted with its namespace", dns(presented(0), deleted(0), func(ch *acmev1.Challenge) {
			ch.Annotations = map[string]string{Presented: "_acme-challenge.a.example.com. in example.com."}
		}), true, true,
			"Error cleaning up challenge: secret not found",
			[]string{`Warning CleanUpAbandoned Cleaning up was given up, remove what is left: the TXT record "hash" below a.example.com (_acme-challenge.a.example.com. in example.com.): secret not found`}},
		{"an Ingress", dns(http, presented(0), deleted(time.Hour)), false, true, "Error cleaning up challenge: secret not found",
			[]string{`Warning CleanUpAbandoned Cleaning up was given up, remove what is left: the path /.well-known/acme-challenge/tok of a.example.com in Ingresses and HTTPRoutes, its Pod and its Service: secret not found`}},
	} {
		s := situation(tc.ch, Memory{Read: true})
		r, abandon := s.CleanUpFailed(failed, tc.hopeless)
		if abandon != tc.abandon || r.Status.Reason != tc.says {
			t.Errorf("%s: abandon %v, %q, want %v, %q", tc.reason, abandon, r.Status.Reason, tc.abandon, tc.says)
		}
		if diff := cmp.Diff(tc.events, told(r)); diff != "" {
			t.Errorf("%s: events (-want +got)\n%s", tc.reason, diff)
		}
		if again, _ := s.After(r).CleanUpFailed(failed, false); !abandon && (len(again.Events) > 0 || again.Status.Reason != tc.says) {
			t.Errorf("%s: the next failure says %q again", tc.reason, again.Status.Reason)
		}
		if cleaned := s.After(r).CleanedUp(); !abandon && strings.HasPrefix(cleaned.Status.Reason, "Error cleaning up") {
			t.Errorf("%s: %q after a clean-up", tc.reason, cleaned.Status.Reason)
		}
	}
}

// Texts that differ each time would write the status each time.
func TestStable(t *testing.T) {
	for _, tc := range []struct{ reason, text, want string }{
		{"request", "AccessDenied, RequestID: 6f1c2d3e-aaaa-bbbb-cccc-1234567890ab, no", "AccessDenied, RequestID: <redacted>, no"},
		{"another spelling", `{"request_id":"abcdefgh12345"}`, `{"request_id":"<redacted>"}`},
		{"subscription of Azure", "/subscriptions/6f1c2d3e-aaaa-bbbb-cccc-1234567890ab/x", "/subscriptions/6f1c2d3e-aaaa-bbbb-cccc-1234567890ab/x"},
		{"port", "read udp 10.0.0.1:43210->8.8.8.8:53: i/o timeout", "read udp 10.0.0.1->8.8.8.8:53: i/o timeout"},
		{"IPv6 port", "read tcp [2001:db8::1]:43210->[2001:db8::2]:443: x", "read tcp [2001:db8::1]->[2001:db8::2]:443: x"},
		{"not UTF-8", "a\xffb", "ab"},
	} {
		if got := Stable(tc.text); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
	if got := Stable(strings.Repeat("é", maxReason)); len(got) > maxReason || !strings.HasSuffix(got, "é...") {
		t.Errorf("%d bytes, ending with %q", len(got), got[len(got)-8:])
	}
}

func TestPresentAgain(t *testing.T) {
	for _, tc := range []struct {
		reason string
		ch     *acmev1.Challenge
		tries  int
		want   bool
	}{
		{"a pod may have been killed", dns(http), 0, true},
		{"a record stays", dns(), 1, false},
		{"a record that is not seen", dns(), 5, true},
		{"not each time", dns(), 6, false},
	} {
		if got := situation(tc.ch, Memory{Step: Check, Tries: tc.tries}).PresentAgain(); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

func TestClassOf(t *testing.T) {
	for _, tc := range []struct {
		result Result
		want   Class
	}{
		{situation(dns(), Memory{}).PresentFailed(errors.New("x")), ClassPresentError},
		{situation(dns(presented(0)), Memory{}).CheckFailed(errors.New("x")), ClassSelfCheck},
		{situation(dns(presented(0)), Memory{}).Checked(time.Minute, ""), ClassNone},
		{situation(dns(presented(0)), Memory{}).CallFailed(Accept, &Limited{}), ClassRateLimited},
		{situation(dns(presented(0)), Memory{}).CallFailed(Accept, errors.New("x")), ClassCA},
		{situation(dns(), Memory{}).CallFailed(Read, errors.New("x")), ClassCA},
		{situation(dns(), Memory{}).IssuerMissing(errors.New("x")), ClassIssuer},
		{situation(dns(), Memory{}).Polled(authz("valid", "valid")), ClassNone},
		{situation(dns(), Memory{}).Polled(authz("invalid", "invalid")), ClassFailed},
	} {
		ch := situation(dns(), Memory{}).After(tc.result).Challenge
		if got := ClassOf(ch); got != tc.want {
			t.Errorf("%q: class %q, want %q", ch.Status.Reason, got, tc.want)
		}
	}
}
