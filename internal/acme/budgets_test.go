package acme_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// budgetWorld is an account of a CA for which the budgets are.
type budgetWorld struct {
	*testing.T
	clock  *clocktesting.FakePassiveClock
	server *acmetest.Server
	client *acme.Client
	// issues has the CA issue what is ordered.
	issues bool
}

func newBudgetWorld(t *testing.T, change func(*acme.ClientSettings), o acmetest.Options) *budgetWorld {
	t.Helper()
	w := &budgetWorld{T: t, clock: clocktesting.NewFakePassiveClock(start)}
	o.Now = w.clock.Now
	w.server = acmetest.Start(t, o)
	w.client = newClient(t, newPool(t, func(cfg *acme.PoolConfig) {
		cfg.Clock = w.clock
		cfg.Settings = acme.DefaultClientSettings()
		cfg.Settings.BudgetHosts = []string{"127.0.0.1", "localhost"}
		change(&cfg.Settings)
	}), w.server)
	return w
}

func (w *budgetWorld) order(want rfc8555.OrderRequest) (rfc8555.Order, time.Time) {
	w.Helper()
	order, err := w.client.NewOrder(w.Context(), want)
	if err == nil && w.issues {
		w.server.SetOrder(order.URL, rfc8555.StateValid, nil)
		if _, err := w.client.Order(w.Context(), order.URL); err != nil {
			w.Fatal(err)
		}
	}
	until := limitedUntil(err)
	if err != nil && until.IsZero() {
		w.Fatal(err)
	}
	if err != nil && !strings.Contains(err.Error(), "acme.") {
		w.Errorf("%v does not name the setting", err)
	}
	return order, until
}

// Orders wait before the CA would refuse them.
func TestBudgets(t *testing.T) {
	few := func(s *acme.ClientSettings) {
		s.NewOrders, s.CertificatesPerDomain, s.CertificatesPerSet = 10, 4, 2
	}
	for _, test := range []struct {
		reason string
		change func(*acme.ClientSettings)
		orders []string // the names of orders that are placed
		held   []string // names of orders that wait
		free   []string // names of orders that do not
		until  time.Duration
	}{
		{
			reason: "the same names", change: few,
			orders: []string{"a.example.com b.example.com", "b.example.com A.example.com"},
			held:   []string{"a.example.com b.example.com"}, free: []string{"a.example.com"}, until: 84 * time.Hour,
		},
		{
			reason: "a registered domain, below a public suffix of two labels", change: few,
			orders: []string{"a.example.co.uk", "b.example.co.uk", "*.example.co.uk", "example.co.uk www.other.test"},
			held:   []string{"c.example.co.uk", "x.test c.example.co.uk"}, free: []string{"a.another.co.uk", "a.example.co.uk"}, until: 42 * time.Hour,
		},
		{
			reason: "new orders", change: func(s *acme.ClientSettings) { s.NewOrders, s.NewOrdersPeriod.Duration = 2, time.Hour },
			orders: []string{"a.test", "b.test"}, held: []string{"c.test"}, until: 30 * time.Minute,
		},
		{
			reason: "addresses are of no domain", change: func(s *acme.ClientSettings) { s.CertificatesPerDomain = 1 },
			orders: []string{"192.0.2.1", "192.0.2.2"}, free: []string{"192.0.2.3"},
		},
		{
			reason: "no budget", change: func(s *acme.ClientSettings) {
				s.NewOrders, s.CertificatesPerDomain, s.CertificatesPerSet = 0, 0, 0
			},
			orders: strings.Split(strings.Repeat("a.example.com ", 60)+"a.example.com", " "),
		},
		{
			reason: "another CA", change: func(s *acme.ClientSettings) { few(s); s.BudgetHosts = []string{"ca.example.com"} },
			orders: strings.Split(strings.Repeat("a.example.com ", 20)+"a.example.com", " "),
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newBudgetWorld(t, test.change, acmetest.Options{})
			w.issues = true
			for _, one := range append(test.orders, test.free...) {
				if _, until := w.order(names(strings.Fields(one)...)); !until.IsZero() {
					t.Fatalf("an order for %s waits until %v", one, until)
				}
			}
			before := w.server.Count(acmetest.NewOrder)
			for _, one := range test.held {
				if _, until := w.order(names(strings.Fields(one)...)); !until.Equal(start.Add(test.until)) {
					t.Errorf("an order for %s waits until %v, not %v", one, until, start.Add(test.until))
				}
			}
			if got := w.server.Count(acmetest.NewOrder); got != before {
				t.Errorf("the CA got %d orders that wait", got-before)
			}
			w.clock.SetTime(start.Add(test.until))
			for _, one := range test.held {
				if _, until := w.order(names(strings.Fields(one)...)); !until.IsZero() && one == test.held[0] {
					t.Errorf("afterwards, an order for %s waits until %v", one, until)
				}
			}
		})
	}
}

// Orders that get no certificate do not count against the budgets of
// certificates.
func TestBudgetOfFailures(t *testing.T) {
	refuse := false
	w := newBudgetWorld(t, func(s *acme.ClientSettings) { s.CertificatesPerSet, s.CertificatesPerDomain = 1, 1 }, acmetest.Options{
		Hook: func(c acmetest.Call) *acmetest.Reply {
			if refuse && c.Kind == acmetest.NewOrder {
				return acmetest.Refused(http.StatusForbidden, rfc8555.ProblemRejectedIdentifier, "no")
			}
			return nil
		},
	})
	refuse = true
	for range 3 {
		if _, err := w.client.NewOrder(t.Context(), names("a.example.com")); problem(t, err).Status != http.StatusForbidden {
			t.Fatal(err)
		}
	}
	refuse = false
	placed, until := w.order(names("a.example.com"))
	if !until.IsZero() {
		t.Fatalf("after refusals, the first order waits until %v", until)
	}
	if _, until := w.order(names("a.example.com")); until.IsZero() {
		t.Error("two certificates are ordered, and the budget is one")
	}
	if _, until := w.order(names("b.example.com")); until.IsZero() {
		t.Error("two certificates of a domain are ordered, and the budget is one")
	}
	w.invalidate(placed)
	if _, until := w.order(names("b.example.com")); !until.IsZero() {
		t.Errorf("an order that has failed counts: the next waits until %v", until)
	}
}

// invalidate fails the validation of an order, and reads what the CA says of it.
func (w *budgetWorld) invalidate(o rfc8555.Order) {
	w.Helper()
	for _, url := range o.Authorizations {
		w.server.SetAuthorization(url, rfc8555.StateInvalid)
		if a, err := w.client.Authorization(w.Context(), url); err != nil || a.Status != rfc8555.StateInvalid {
			w.Fatalf("%+v, %v", a, err)
		}
	}
	if o, err := w.client.Order(w.Context(), o.URL); err != nil || o.Status != rfc8555.StateInvalid {
		w.Fatalf("%+v, %v", o, err)
	}
}

// A name whose validation has failed often waits, so that the CA is not told of
// more failures; each failure counts once.
func TestBudgetOfAuthorizations(t *testing.T) {
	w := newBudgetWorld(t, func(s *acme.ClientSettings) { s.FailedAuthorizations = 2 }, acmetest.Options{})
	for i := range 2 {
		placed, until := w.order(names("a.example.com", fmt.Sprintf("other-%d.example.com", i)))
		if !until.IsZero() {
			t.Fatalf("order %d waits until %v", i, until)
		}
		w.invalidate(placed)
		w.invalidate(placed)
	}
	if _, until := w.order(names("*.a.example.com")); !until.Equal(start.Add(30 * time.Minute)) {
		t.Errorf("the next order waits until %v", until)
	}
	if _, until := w.order(names("b.example.com")); !until.IsZero() {
		t.Errorf("an order for another name waits until %v", until)
	}
}

// Renewals that name the certificate they replace are not held back and do not
// count.
func TestBudgetOfRenewals(t *testing.T) {
	w := newBudgetWorld(t, func(s *acme.ClientSettings) { s.CertificatesPerSet = 1 }, acmetest.Options{})
	w.issues = true
	renewal := names("a.example.com")
	for i := range 3 {
		renewal.Replaces = fmt.Sprintf("aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQy%d", i)
		if _, until := w.order(renewal); !until.IsZero() {
			t.Fatalf("a renewal waits until %v", until)
		}
	}
	if near := w.client.NearLimit(names("a.example.com")); near != "" {
		t.Errorf("renewals count: %s", near)
	}
	if _, until := w.order(names("a.example.com")); !until.IsZero() {
		t.Fatalf("the first order waits until %v", until)
	}
	if near := w.client.NearLimit(names("a.example.com")); !strings.Contains(near, "1 certificates for exactly these names") {
		t.Errorf("nobody is told that the limit is near: %q", near)
	}
	if near := w.client.NearLimit(renewal); near != "" {
		t.Errorf("a renewal is warned: %s", near)
	}
}
