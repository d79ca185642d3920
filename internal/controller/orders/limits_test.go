package orders

import (
	"net/http"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
)

// Users are told before the CA limits certificates for the same names, and that
// several Certificates use up that limit.
func TestWarnsOfLimit(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	settings := acme.DefaultClientSettings()
	settings.BudgetHosts, settings.CertificatesPerSet = []string{"127.0.0.1"}, 3
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: "test", Clock: w.clock, Jitter: func(time.Duration) time.Duration { return 0 }, Settings: settings})
	w.must(t, err)
	w.acme, err = pool.Client(acme.Config{Directory: w.ca.Directory(), Key: newKey(t), CABundle: w.ca.CABundle()})
	w.must(t, err)
	_, err = w.acme.Register(t.Context(), acme.Registration{})
	w.must(t, err)
	issue := func(name, certificate string) []string {
		t.Helper()
		w.newOrder(t, name, newKey(t), func(o *acmev1.Order) {
			o.Annotations = map[string]string{cmv1.CertificateNameKey: certificate}
		}, "a.example.com", "b.example.com")
		if o := w.settle(t, name); o.Status.State != acmev1.Valid {
			t.Fatalf("%+v", o.Status)
		}
		return w.told()
	}
	if told := issue("one-1", "one"); has(told, "Warning") {
		t.Errorf("the first: %q", told)
	}
	told := issue("two-1", "two")
	if !has(told, "Warning LimitNear The CA issues 3 certificates for exactly these names in 7d, and 1 more can be ordered now") {
		t.Errorf("the second: %q", told)
	}
	if !has(told, "Warning DuplicateCertificate 1 other Certificates have the same names from this issuer: one.") {
		t.Errorf("the second: %q", told)
	}
	issue("one-2", "one")
	w.newOrder(t, "one-3", newKey(t), nil, "b.example.com", "a.example.com")
	held := w.idle(t, "one-3")
	if !strings.Contains(held.Status.Reason, "because the CA limits certificates for the same names: the configuration allows 3 for exactly these names in 7d (acme.certificatesPerSet)") {
		t.Errorf("the fourth: %+v", held.Status)
	}
	if orders := w.ca.Count(acmetest.NewOrder); orders != 3 {
		t.Errorf("the CA got %d orders", orders)
	}
}

// Metrics say how Orders end, why, and what they have waited for.
func TestMetrics(t *testing.T) {
	refused := acmetest.Refused(http.StatusForbidden, rfc8555.ProblemRejectedIdentifier, "not this one")
	w := newWorld(t, acmetest.Options{Hook: func(c acmetest.Call) *acmetest.Reply {
		switch {
		case c.Kind == acmetest.NewOrder && c.N == 1:
			return acmetest.RateLimited("7200", "too many new orders")
		case c.Kind == acmetest.NewOrder && c.N == 3:
			return refused
		}
		return nil
	}})
	registry := prometheus.NewRegistry()
	metrics, err := certmetrics.New(registry)
	w.must(t, err)
	w.Metrics = metrics
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	if o := w.settle(t, "web"); o.Status.State != acmev1.Valid {
		t.Fatalf("%+v", o.Status)
	}
	w.newOrder(t, "bad", newKey(t), nil, "b.example.com")
	if o := w.settle(t, "bad"); o.Status.State != acmev1.Errored {
		t.Fatalf("%+v", o.Status)
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP certplane_acme_orders_total Number of Orders that have ended, by their state and the type of the CA's problem.
# TYPE certplane_acme_orders_total counter
certplane_acme_orders_total{problem="none",result="valid"} 1
certplane_acme_orders_total{problem="rejectedIdentifier",result="errored"} 1
`), "certplane_acme_orders_total")
	if err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	w.must(t, err)
	waits := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "certplane_acme_wait_seconds" {
			for _, m := range f.GetMetric() {
				waits[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	if waits["limit"] < 7200 || waits["limit"] > 8000 {
		t.Errorf("waits: %v", waits)
	}
}
