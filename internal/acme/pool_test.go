package acme_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
)

// An account has a few requests open at a time. Those that wait end with their
// context.
func TestOpenRequests(t *testing.T) {
	var open, most atomic.Int32
	entered, release := make(chan struct{}, 100), make(chan struct{})
	s := acmetest.Start(t, acmetest.Options{})
	c := newClient(t, newPool(t, nil), s)
	s.Change(func(o *acmetest.Options) {
		o.Hook = func(call acmetest.Call) *acmetest.Reply {
			if call.Kind != acmetest.NewOrder {
				return nil
			}
			now := open.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			entered <- struct{}{}
			<-release
			open.Add(-1)
			return nil
		}
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.NewOrder(t.Context(), names("a.example.com")); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		<-entered
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.NewOrder(ctx, names("a.example.com")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	all.Wait()
	if most.Load() != 4 || s.Count(acmetest.NewOrder) != 20 {
		t.Errorf("%d at a time, %d in all", most.Load(), s.Count(acmetest.NewOrder))
	}
}

// A request ends with its context.
func TestCancel(t *testing.T) {
	never, asked := make(chan struct{}), make(chan struct{}, 1)
	s := acmetest.Start(t, acmetest.Options{})
	c := newClient(t, newPool(t, nil), s)
	s.Change(func(o *acmetest.Options) {
		o.Hook = func(call acmetest.Call) *acmetest.Reply {
			if call.Kind != acmetest.NewOrder {
				return nil
			}
			asked <- struct{}{}
			return &acmetest.Reply{Wait: never}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := c.NewOrder(ctx, names("a.example.com")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A server that lets its clients wait is asked once a minute.
func TestSilence(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	silent := true
	s := acmetest.Start(t, acmetest.Options{Hook: func(acmetest.Call) *acmetest.Reply {
		if !silent {
			return nil
		}
		clock.SetTime(clock.Now().Add(10 * time.Second))
		return &acmetest.Reply{Lost: true}
	}})
	c := unregistered(t, newPool(t, func(cfg *acme.PoolConfig) { cfg.Clock = clock }), s, newKey(t))
	ask := func(requests int) error {
		t.Helper()
		_, err := c.Directory(t.Context())
		if got := len(s.Calls()); got != requests {
			t.Errorf("%d requests, want %d", got, requests)
		}
		return err
	}
	for i := range 3 {
		if err := ask(i + 1); err == nil {
			t.Fatal("no error")
		}
	}
	if err := ask(3); err == nil || !strings.Contains(err.Error(), "asked again after 2026-03-01T12:01:30Z") {
		t.Error(err)
	}
	clock.SetTime(start.Add(90 * time.Second))
	if err := ask(4); err == nil {
		t.Error("no error")
	}
	clock.SetTime(start.Add(159 * time.Second))
	if err := ask(4); err == nil {
		t.Error("it is asked before the minute has passed")
	}
	silent = false
	clock.SetTime(start.Add(160 * time.Second))
	if err := ask(5); err != nil {
		t.Error(err)
	}
}

// The requests are counted as cert-manager counts them.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := acmetest.Start(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
		if c.Kind == acmetest.Order {
			return &acmetest.Reply{Lost: true}
		}
		return nil
	}})
	c := newClient(t, newPool(t, func(cfg *acme.PoolConfig) { cfg.Metrics = registry }), s)
	order, err := c.NewOrder(t.Context(), names("a.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Order(t.Context(), order.URL); err == nil {
		t.Fatal("a lost answer is none")
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s.Directory(), "https://"), "/directory")
	want := `
# HELP certmanager_http_acme_client_request_count The number of requests made by the ACME client.
# TYPE certmanager_http_acme_client_request_count counter
`
	for _, line := range []string{
		`action="authorize_order",host="HOST",method="POST",scheme="https",status="201"`, `action="discover",host="HOST",method="GET",scheme="https",status="200"`,
		`action="get_order",host="HOST",method="POST",scheme="https",status="999"`, `action="register_account",host="HOST",method="POST",scheme="https",status="201"`,
		`action="unnamed_action",host="HOST",method="HEAD",scheme="https",status="200"`,
	} {
		want += "certmanager_http_acme_client_request_count{" + strings.ReplaceAll(line, "HOST", host) + "} 1\n"
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "certmanager_http_acme_client_request_count"); err != nil {
		t.Error(err)
	}
	if got, err := testutil.GatherAndCount(registry, "certmanager_http_acme_client_request_duration_seconds"); err != nil || got != 5 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := acme.NewPool(acme.PoolConfig{Metrics: registry}); err != nil {
		t.Errorf("a second pool of the process: %v", err)
	}
}

func TestSettings(t *testing.T) {
	if err := acme.DefaultClientSettings().Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*acme.ClientSettings){
		"acme.openRequests": func(s *acme.ClientSettings) { s.OpenRequests = 0 }, "acme.rateLimitedFor": func(s *acme.ClientSettings) { s.RateLimitedFor.Duration = 0 },
		"acme.newOrders": func(s *acme.ClientSettings) { s.NewOrders = -1 }, "acme.newOrdersPeriod": func(s *acme.ClientSettings) { s.NewOrdersPeriod.Duration = 0 },
	} {
		s := acme.DefaultClientSettings()
		change(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Clients of one account work while its key is replaced, and others besides.
func TestRollOverUnderLoad(t *testing.T) {
	s := acmetest.Start(t, acmetest.Options{})
	p, key := newPool(t, nil), newKey(t)
	first := unregistered(t, p, s, key)
	if _, err := first.Register(t.Context(), acme.Registration{}); err != nil {
		t.Fatal(err)
	}
	other := newClient(t, p, s)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				same, err := p.Client(acme.Config{Directory: s.Directory(), Key: key, CABundle: s.CABundle(), Account: first.Account()})
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range []*acme.Client{same, other} {
					if _, err := c.NewOrder(t.Context(), names("a.example.com")); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 3 {
		if err := first.RollOver(t.Context(), newKey(t)); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
}

// An issuer cannot name a metadata service as its ACME server.
func TestRefusedAddresses(t *testing.T) {
	for _, directory := range []string{"https://169.254.169.254/directory", "https://[fd00:ec2::254]/directory"} {
		c, err := newPool(t, nil).Client(acme.Config{Directory: directory, Key: newKey(t)})
		if err != nil {
			t.Fatal(err)
		}
		const want = "is a link-local or metadata address, which no issuer may use"
		if _, err := c.NewOrder(t.Context(), names("a.example.com")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", directory, err, want)
		}
	}
}
