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

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// limitedUntil returns the end of the limit in an error; zero if it is none.
func limitedUntil(err error) time.Time {
	limited := &acme.LimitedError{}
	if errors.As(err, &limited) {
		return limited.Until
	}
	return time.Time{}
}

// A limit holds back what it is for, and nothing else, until it ends.
func TestLimits(t *testing.T) {
	tests := []struct {
		reason string
		reply  *acmetest.Reply
		until  time.Duration
		held   []string // orders that wait
		free   []string // orders that do not
	}{
		{
			reason: "all orders of the account, with seconds", reply: acmetest.RateLimited("120", "too many new orders (300) from this account in the last 3h0m0s"),
			until: 2 * time.Minute, held: []string{"a.example.com", "other.test"},
		},
		{
			reason: "a date", reply: acmetest.RateLimited(start.Add(time.Hour).Format(http.TimeFormat), "too many"),
			until: time.Hour, held: []string{"a.example.com", "other.test"},
		},
		{
			reason: "no time", reply: acmetest.RateLimited("", "too many"),
			until: time.Hour, held: []string{"other.test"},
		},
		{
			reason: "a time that never comes", reply: acmetest.RateLimited("99999999999999", "too many"),
			until: 7 * 24 * time.Hour, held: []string{"other.test"},
		},
		{
			reason: "a registered domain", reply: acmetest.RateLimited("60", `too many certificates (50) already issued for "example.com" in the last 168h0m0s`),
			until: time.Minute, held: []string{"a.example.com", "*.example.com", "example.com"}, free: []string{"other.test", "notexample.com"},
		},
		{
			reason: "failed authorizations of a name", reply: acmetest.RateLimited("60", `too many failed authorizations (5) for "a.example.com" in the last 1h0m0s`),
			until: time.Minute, held: []string{"a.example.com"}, free: []string{"b.a.example.com", "b.example.com"},
		},
		{
			reason: "a set of names", reply: acmetest.RateLimited("60", "too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s"),
			until: time.Minute, held: []string{"a.example.com"}, free: []string{"b.example.com"},
		},
		{
			reason: "a name that is not in the order", reply: acmetest.RateLimited("60", `too many certificates for "foreign.test"`),
			until: time.Minute, held: []string{"a.example.com", "other.test"},
		},
		{
			reason: "an outage", reply: &acmetest.Reply{Status: 503, Header: http.Header{"Retry-After": {"30"}}},
			until: 30 * time.Second, held: []string{"other.test"},
		},
		{
			reason: "an outage that never ends", reply: &acmetest.Reply{Status: 503, Header: http.Header{"Retry-After": {"9999999"}}},
			until: time.Hour, held: []string{"other.test"},
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(start)
			s := acmetest.Start(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
				if c.Kind == acmetest.NewOrder && c.N == 1 {
					return test.reply
				}
				return nil
			}})
			c := newClient(t, newPool(t, func(cfg *acme.PoolConfig) { cfg.Clock = clock }), s)
			until := start.Add(test.until)
			_, err := c.NewOrder(t.Context(), names("a.example.com"))
			if got := limitedUntil(err); !got.Equal(until) || problem(t, err).Status != test.reply.Status {
				t.Fatalf("the refused order waits until %v: %v", got, err)
			}
			for _, name := range test.held {
				if _, err := c.NewOrder(t.Context(), names(name)); !limitedUntil(err).Equal(until) {
					t.Errorf("%s is not held back: %v", name, err)
				}
			}
			for _, name := range test.free {
				if _, err := c.NewOrder(t.Context(), names(name)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := s.Count(acmetest.NewOrder); got != 1+len(test.free) {
				t.Errorf("the server got %d orders", got)
			}
			clock.SetTime(until)
			if _, err := c.NewOrder(t.Context(), names(test.held...)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// What is not a limit, or one of other requests, holds nothing back.
func TestNoLimit(t *testing.T) {
	for reason, reply := range map[string]*acmetest.Reply{
		"an error of the server": {Status: 500, Header: http.Header{"Retry-After": {"30"}}},
		"an outage without time": {Status: 503},
		"a refusal":              acmetest.Refused(403, "rejectedIdentifier", "no"),
	} {
		s := acmetest.Start(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
			if c.Kind == acmetest.NewOrder && c.N == 1 {
				return reply
			}
			return nil
		}})
		c := newClient(t, newPool(t, nil), s)
		_, err := c.NewOrder(t.Context(), names("a.example.com"))
		if problem(t, err).Status != reply.Status || !limitedUntil(err).IsZero() {
			t.Errorf("%s: %v", reason, err)
		}
		if _, err := c.NewOrder(t.Context(), names("a.example.com")); err != nil {
			t.Errorf("%s, then: %v", reason, err)
		}
	}
}

// Limits are those of an account: they do not end with a client, and do not
// reach other accounts. Renewals that the CA has suggested are not new orders.
func TestLimitsOfAccount(t *testing.T) {
	limited := true
	s := acmetest.Start(t, acmetest.Options{})
	s.Change(func(o *acmetest.Options) {
		o.Hook = func(c acmetest.Call) *acmetest.Reply {
			if c.Kind == acmetest.NewOrder && limited {
				return acmetest.RateLimited("3600", "too many")
			}
			return nil
		}
	})
	p, key := newPool(t, nil), newKey(t)
	c := unregistered(t, p, s, key)
	if _, err := c.Register(t.Context(), acme.Registration{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NewOrder(t.Context(), names("a.example.com")); limitedUntil(err).IsZero() {
		t.Fatal(err)
	}
	limited = false
	again, err := p.Client(acme.Config{Directory: s.Directory(), Key: key, CABundle: s.CABundle(), Account: c.Account()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = again.NewOrder(t.Context(), names("a.example.com"))
	if limitedUntil(err).IsZero() || !strings.HasPrefix(err.Error(), "waiting until 20") || !strings.Contains(err.Error(), " because the CA limits new orders: 429 ") {
		t.Errorf("another client of the account: %v", err)
	}
	if err := c.RollOver(t.Context(), newKey(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NewOrder(t.Context(), names("a.example.com")); limitedUntil(err).IsZero() {
		t.Errorf("the account with a new key: %v", err)
	}
	renewal := names("a.example.com")
	renewal.Replaces = "AAA.BBB"
	if _, err := c.NewOrder(t.Context(), renewal); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	if _, err := newClient(t, p, s).NewOrder(t.Context(), names("a.example.com")); err != nil {
		t.Errorf("another account: %v", err)
	}
}

// Limits of one type of requests do not hold back those of another.
func TestLimitOfRequest(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
		if c.Kind == acmetest.Order {
			return acmetest.RateLimited("60", "slow down")
		}
		return nil
	}})
	c := newClient(t, newPool(t, nil), s)
	order, err := c.NewOrder(t.Context(), names("a.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Order(t.Context(), order.URL); limitedUntil(err).IsZero() || problem(t, err).Type != rfc8555.Namespace+rfc8555.ProblemRateLimited {
			t.Error(err)
		}
	}
	if _, err := c.Authorization(t.Context(), order.Authorizations[0]); err != nil || s.Count(acmetest.Order) != 1 {
		t.Errorf("%v, and the order was read %d times", err, s.Count(acmetest.Order))
	}
}
