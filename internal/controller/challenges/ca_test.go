package challenges

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// account returns a client with an account of a server.
func account(w *world, s *acmetest.Server) *acme.Client {
	w.Helper()
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: "test", Clock: w.clock, Jitter: func(time.Duration) time.Duration { return 0 }})
	if err != nil {
		w.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	c, err := pool.Client(acme.Config{Directory: s.Directory(), Key: key, CABundle: s.CABundle()})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := c.Register(w.Context(), acme.Registration{}); err != nil {
		w.Fatal(err)
	}
	return c
}

// ordered creates the Challenge of a new order.
func ordered(w *world, c *acme.Client, kind string) *acmev1.Challenge {
	w.Helper()
	order, err := c.NewOrder(w.Context(), rfc8555.OrderRequest{Identifiers: []rfc8555.Identifier{{Type: "dns", Value: "a.example.com"}}})
	if err != nil {
		w.Fatal(err)
	}
	authz, err := c.Authorization(w.Context(), order.Authorizations[0])
	if err != nil {
		w.Fatal(err)
	}
	return w.create("shop", "a", func(ch *acmev1.Challenge) {
		for _, one := range authz.Challenges {
			if one.Type == kind {
				ch.Spec.URL, ch.Spec.AuthorizationURL, ch.Spec.Token = one.URL, authz.URL, one.Token
				ch.Spec.Key = c.KeyAuthorization(one.Token)
			}
		}
	})
}

// The same against a server that speaks the protocol.
func TestServer(t *testing.T) {
	const dns = rfc8555.Namespace + "dns"
	for _, tc := range []struct {
		reason string
		change func(*acmetest.Options)
		hook   func(acmetest.Call) *acmetest.Reply
		first  string // the reason before the time below, if not ""
		takes  time.Duration
		state  acmev1.State
		says   string
	}{
		{reason: "valid", takes: 10 * time.Second, state: acmev1.Valid, says: "Successfully authorized domain"},
		{
			reason: "invalid", takes: 10 * time.Second, state: acmev1.Invalid,
			change: func(o *acmetest.Options) {
				o.Validate = func(acmetest.Validation) acmetest.Verdict {
					return acmetest.Verdict{Problem: &rfc8555.Problem{Type: dns, Detail: "NXDOMAIN"}}
				}
			},
			says: "Error accepting authorization: acme: authorization error for a.example.com: " + dns + ": NXDOMAIN",
		},
		{
			reason: "rate limit", takes: 20 * time.Minute, state: acmev1.Valid, says: "Successfully authorized domain", first: "waiting until ",
			hook: once(acmetest.Challenge, acmetest.RateLimited("600", "too many validations")),
		},
		{
			reason: "the answer is lost", takes: time.Minute, state: acmev1.Valid, says: "Successfully authorized domain",
			hook: once(acmetest.Challenge, &acmetest.Reply{Lost: true, Acts: true}),
		},
		{
			reason: "the request is lost", takes: time.Minute, state: acmev1.Valid, says: "Successfully authorized domain",
			hook: once(acmetest.Challenge, &acmetest.Reply{Lost: true}),
		},
		{
			reason: "a proxy answers", takes: time.Minute, state: acmev1.Valid, says: "Successfully authorized domain", first: "Error accepting challenge: 403 ",
			hook: once(acmetest.Challenge, &acmetest.Reply{Status: 403, Body: "<html>blocked</html>"}),
		},
		{
			reason: "refused", takes: time.Minute, state: acmev1.Errored, says: "Error accepting challenge: 403 urn:ietf:params:acme:error:rejectedIdentifier: policy",
			hook: once(acmetest.Challenge, acmetest.Refused(403, rfc8555.ProblemRejectedIdentifier, "policy")),
		},
	} {
		w := newWorld(t)
		shown := false
		options := acmetest.Options{Hook: tc.hook, Validate: func(v acmetest.Validation) acmetest.Verdict {
			shown = w.net.shows(v.KeyAuthorization)
			return acmetest.Verdict{}
		}}
		if tc.change != nil {
			tc.change(&options)
			shown = true
		}
		s := acmetest.Start(t, options)
		c := account(w, s)
		w.clients = func(context.Context, cmv1.GenericIssuer) (Client, error) { return c, nil }
		ch := ordered(w, c, "dns-01")
		w.run(time.Second)
		if got := w.get(ch).Status.Reason; !strings.HasPrefix(got, tc.first) {
			t.Errorf("%s: at first %q, want %q", tc.reason, got, tc.first)
		}
		w.run(tc.takes)
		w.ended(ch, tc.state)
		if got := w.get(ch).Status.Reason; got != tc.says {
			t.Errorf("%s: reason %q, want %q", tc.reason, got, tc.says)
		}
		if tc.state == acmev1.Valid && !shown {
			t.Errorf("%s: the CA did not find the answer", tc.reason)
		}
	}
}

// once answers the first request of a kind.
func once(kind acmetest.Kind, reply *acmetest.Reply) func(acmetest.Call) *acmetest.Reply {
	return func(c acmetest.Call) *acmetest.Reply {
		if c.Kind == kind && c.N == 1 {
			return reply
		}
		return nil
	}
}

// What the CA does with the authorization meanwhile is a state that the API
// accepts.
func TestServerDeactivates(t *testing.T) {
	for _, status := range []string{rfc8555.StateDeactivated, rfc8555.StateRevoked, rfc8555.StateExpired} {
		w := newWorld(t)
		s := acmetest.Start(t, acmetest.Options{Validate: func(acmetest.Validation) acmetest.Verdict { return acmetest.Verdict{Pending: true} }})
		c := account(w, s)
		w.clients = func(context.Context, cmv1.GenericIssuer) (Client, error) { return c, nil }
		ch := ordered(w, c, "dns-01")
		w.run(5 * time.Second)
		s.SetAuthorization(ch.Spec.AuthorizationURL, status)
		w.run(time.Minute)
		want := acmev1.Invalid
		if status == rfc8555.StateExpired {
			want = acmev1.Expired
		}
		w.ended(ch, want)
	}
}
