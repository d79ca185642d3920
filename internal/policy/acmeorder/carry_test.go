package acmeorder_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
)

// approvedEarlier returns an order that carol has approved an hour ago, for a and b.
func approvedEarlier(t *testing.T, e *acmeorder.Endpoint, change func(*v1alpha1.AcmeOrder)) *v1alpha1.AcmeOrder {
	t.Helper()
	o := finalized(t, e, newKey(t), dns("a.corp.example", "b.corp.example")...)
	o.Name, o.Status.Finalized = "earlier", moment(now.Add(-2*time.Hour))
	o.Status.Request.Name = acmeorder.RequestName(o)
	o.Status.Approval = &v1alpha1.AcmeOrderApproval{By: "carol", Sealed: "v1.sealed", Time: *moment(now.Add(-time.Hour))}
	if change != nil {
		change(o)
	}
	return o
}

func carrying(period time.Duration) func(*v1alpha1.AcmeEndpoint) {
	return func(e *v1alpha1.AcmeEndpoint) { e.Spec.Approval.CarryOver = metav1.Duration{Duration: period} }
}

func TestCarryOver(t *testing.T) {
	type change = func(*v1alpha1.AcmeOrder)
	for _, tc := range []struct {
		reason string
		from   change
		period time.Duration
		want   bool
	}{
		{"approved by a person", nil, 24 * time.Hour, true},
		{"off", nil, 0, false},
		{"too long ago", nil, time.Hour - time.Second, false},
		{"approved by right", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.By = "" }, 24 * time.Hour, false},
		{"without a seal", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.Sealed = "" }, 24 * time.Hour, false},
		{"itself carried over", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.CarriedFrom = "x" }, 24 * time.Hour, false},
		{"not approved", func(o *v1alpha1.AcmeOrder) { o.Status.Approval = nil }, 24 * time.Hour, false},
		{"another account", func(o *v1alpha1.AcmeOrder) { o.Spec.Account = "bob" }, 24 * time.Hour, false},
		{"another profile", func(o *v1alpha1.AcmeOrder) { o.Spec.Profile = "mesh" }, 24 * time.Hour, false},
		{"fewer names", func(o *v1alpha1.AcmeOrder) { o.Spec.Identifiers = o.Spec.Identifiers[1:] }, 24 * time.Hour, false},
		{"a denial since", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.Denied = moment(now) }, 24 * time.Hour, false},
		{"its certificate is revoked", func(o *v1alpha1.AcmeOrder) {
			o.Status.Certificate = &v1alpha1.AcmeCertificate{Revoked: &v1alpha1.AcmeRevoked{}}
		}, 24 * time.Hour, false},
		{"a later one", func(o *v1alpha1.AcmeOrder) { o.Status.Finalized = moment(now.Add(time.Second)) }, 24 * time.Hour, false},
		{"used four times", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.CarriedTo = []string{"1", "2", "3", "4"} }, 24 * time.Hour, true},
		{"used five times", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.CarriedTo = []string{"1", "2", "3", "4", "5"} }, 24 * time.Hour, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t, carrying(tc.period))
			from, o := approvedEarlier(t, e, tc.from), finalized(t, e, newKey(t), dns("a.corp.example")...)
			if got := acmeorder.CarryOver(o, []*v1alpha1.AcmeOrder{from}, e.Spec(), now); (got != nil) != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// The latest approval counts, and each for five orders.
func TestCountCarried(t *testing.T) {
	e := endpoint(t, carrying(24*time.Hour))
	older := approvedEarlier(t, e, func(o *v1alpha1.AcmeOrder) {
		o.Name, o.Status.Approval.Time = "older", *moment(now.Add(-2 * time.Hour))
	})
	from := approvedEarlier(t, e, nil)
	for i := range 7 {
		o := finalized(t, e, newKey(t), dns("a.corp.example")...)
		o.Name = fmt.Sprint("later", i)
		got, want := acmeorder.CarryOver(o, []*v1alpha1.AcmeOrder{older, from}, e.Spec(), now), from
		if i >= 5 {
			want = older
		}
		if got != want {
			t.Fatalf("%d: the approval of %v", i, got)
		}
		for range 2 { // the second attempt counts nothing
			got = changed(t, got, acmeorder.CountCarried(got, o))
			*want = *got
			if got.Status.Approval.CarriedTo[len(got.Status.Approval.CarriedTo)-1] != o.Name {
				t.Fatalf("%d: %v", i, got.Status.Approval.CarriedTo)
			}
		}
	}
	if len(from.Status.Approval.CarriedTo) != 5 || len(older.Status.Approval.CarriedTo) != 2 {
		t.Errorf("%v, %v", from.Status.Approval.CarriedTo, older.Status.Approval.CarriedTo)
	}
	other := finalized(t, e, newKey(t), dns("a.corp.example")...)
	other.Name = "one more"
	if acmeorder.CountCarried(from, other) != nil {
		t.Error("the approval counts for a sixth order")
	}
}

// What is not sealed can only make an approval count less.
func TestCarriedCheck(t *testing.T) {
	type carried = acmeorder.Carried
	type approval = acmeorder.Approval
	for _, tc := range []struct {
		reason string
		change func(*carried, *approval)
		want   bool
	}{
		{"all is as it was", func(*carried, *approval) {}, true},
		{"the order says more than is sealed", func(c *carried, _ *approval) { c.Terms.Identifiers = c.Terms.Identifiers[:1] }, false},
		{"the seal is of another order", func(c *carried, _ *approval) { c.Terms.Order = "x" }, false},
		{"the seal is of another namespace", func(c *carried, _ *approval) { c.Terms.Namespace = "x" }, false},
		{"the seal is of another account", func(c *carried, _ *approval) { c.Terms.Account = "x" }, false},
		{"the account had another key", func(c *carried, _ *approval) { c.Terms.AccountKey = "x" }, false},
		{"the ServiceAccount was another", func(c *carried, _ *approval) { c.Terms.RequesterUID = "x" }, false},
		{"the seal is of another profile", func(c *carried, _ *approval) { c.Terms.Profile = "x" }, false},
		{"the seal is of another endpoint", func(c *carried, _ *approval) { c.Terms.Endpoint = "x" }, false},
		{"the signer was another", func(c *carried, _ *approval) { c.Terms.Signer = "x" }, false},
		{"the kind was another", func(c *carried, _ *approval) { c.Terms.Kind = "x" }, false},
		{"fewer usages were approved", func(c *carried, _ *approval) { c.Terms.Usages = c.Terms.Usages[1:] }, false},
		{"a shorter lifetime was approved", func(c *carried, _ *approval) { c.Terms.Duration = new(time.Minute) }, false},
		{"no terms are sealed", func(c *carried, _ *approval) { c.Terms = nil }, false},
		{"the time is sealed", func(c *carried, _ *approval) { c.Time = now.Add(-25 * time.Hour) }, false},
		{"the order is not counted", func(c *carried, _ *approval) { c.From.Status.Approval.CarriedTo = []string{"x"} }, false},
		{"the order is the sixth", func(c *carried, a *approval) {
			c.From.Status.Approval.CarriedTo = []string{"1", "2", "3", "4", "5", a.Order.Name}
		}, false},
		{"somebody has denied", func(c *carried, _ *approval) { c.From.Status.Approval.Denied = moment(now) }, false},
		{"the approved order is later", func(c *carried, _ *approval) { c.From.Status.Finalized = moment(now.Add(time.Second)) }, false},
		{"the endpoint does not carry over anymore", func(_ *carried, a *approval) { a.Endpoint = endpoint(t) }, false},
		{"the order is its own", func(c *carried, a *approval) { c.From = a.Order }, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t, carrying(24*time.Hour))
			from, o := approvedEarlier(t, e, nil), finalized(t, e, newKey(t), dns("b.corp.example")...)
			from.Status.Approval.CarriedTo = []string{"x", o.Name}
			proof := acmeorder.Proof{Order: from, Account: facts(account(), nil), Endpoint: e}
			terms := proof.Terms(stored(t, e, from, nil), now)
			if terms == nil {
				t.Fatal("the order has no terms")
			}
			c := acmeorder.Carried{From: from, Terms: terms, Time: now.Add(-time.Hour)}
			a := acmeorder.Approval{Order: o, Request: stored(t, e, o, nil), Endpoint: e, Account: facts(account(), nil)}
			tc.change(&c, &a)
			if err := c.Check(a, now); (err == nil) != tc.want {
				t.Errorf("%v", err)
			}
		})
	}
}

// Nothing is sealed for orders that prove nothing, or whose endpoint carries nothing
// over.
func TestSealedTerms(t *testing.T) {
	e := endpoint(t, carrying(time.Hour))
	o := finalized(t, e, newKey(t), dns("a.corp.example")...)
	asked := stored(t, e, o, nil)
	for _, tc := range []struct {
		reason string
		proof  acmeorder.Proof
		asked  func(*request.Request)
		want   bool
	}{
		{"the request of the order", acmeorder.Proof{Order: o, Account: facts(account(), nil), Endpoint: e}, nil, true},
		{"a copy", acmeorder.Proof{Order: o, Account: facts(account(), nil), Endpoint: e}, func(r *request.Request) { r.UID = "copy" }, false},
		{"off", acmeorder.Proof{Order: o, Account: facts(account(), nil), Endpoint: endpoint(t)}, nil, false},
		{"the endpoint is gone", acmeorder.Proof{Order: o, Account: facts(account(), nil)}, nil, false},
		{"the account is revoked", acmeorder.Proof{Order: o, Account: facts(account(func(a *v1alpha1.AcmeAccount) { a.Spec.Decision = "Revoked" }), nil), Endpoint: e}, nil, false},
	} {
		r := asked
		if tc.asked != nil {
			tc.asked(&r)
		}
		if got := tc.proof.Terms(r, now); (got != nil) != tc.want {
			t.Errorf("%s: %+v", tc.reason, got)
		}
	}
}

func TestEndCarrying(t *testing.T) {
	e := endpoint(t, carrying(24*time.Hour))
	denied := finalized(t, e, newKey(t), dns("c.corp.example")...)
	for _, tc := range []struct {
		reason string
		change func(*v1alpha1.AcmeOrder)
		want   bool
	}{
		{"an approval by a person", nil, true},
		{"of another account", func(o *v1alpha1.AcmeOrder) { o.Spec.Account = "bob" }, false},
		{"of a policy", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.Sealed = "" }, false},
		{"denied before", func(o *v1alpha1.AcmeOrder) { o.Status.Approval.Denied = moment(now) }, false},
		{"none", func(o *v1alpha1.AcmeOrder) { o.Status.Approval = nil }, false},
	} {
		if got := acmeorder.EndCarrying(approvedEarlier(t, e, tc.change), denied, now); (got != nil) != tc.want || got != nil && got.Approval.Denied == nil {
			t.Errorf("%s: %+v", tc.reason, got)
		}
	}
	for reason, want := range map[string]bool{"": true, "No": true, acmeorder.ReasonSuperseded: false, acmeorder.ReasonOrderEnded: false} {
		if acmeorder.EndsCarrying(reason) != want {
			t.Errorf("the reason %q", reason)
		}
	}
}

func TestSuperseded(t *testing.T) {
	e := endpoint(t, carrying(24*time.Hour))
	by := finalized(t, e, newKey(t), dns("a.corp.example", "b.corp.example")...)
	by.Status.Approval = &v1alpha1.AcmeOrderApproval{}
	for _, tc := range []struct {
		reason string
		change func(*v1alpha1.AcmeOrder)
		want   bool
	}{
		{"waits", nil, true},
		{"approved", func(o *v1alpha1.AcmeOrder) { o.Status.Approval = &v1alpha1.AcmeOrderApproval{} }, false},
		{"later", func(o *v1alpha1.AcmeOrder) { o.Status.Finalized = moment(now.Add(time.Second)) }, false},
		{"more", func(o *v1alpha1.AcmeOrder) {
			o.Spec.Identifiers = append(o.Spec.Identifiers, v1alpha1.AcmeIdentifier{Type: "dns", Value: "c.corp.example"})
		}, false},
		{"ended", func(o *v1alpha1.AcmeOrder) { o.Status.State = "invalid" }, false},
		{"an approval is to count for it", func(o *v1alpha1.AcmeOrder) { o.Status.CarryFrom = "x" }, false},
		{"of another account", func(o *v1alpha1.AcmeOrder) { o.Spec.Account = "bob" }, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			o := finalized(t, e, newKey(t), dns("a.corp.example")...)
			o.Name, o.Status.Finalized = "waits", moment(now.Add(-time.Hour))
			if tc.change != nil {
				tc.change(o)
			}
			if got := acmeorder.IsSupersededBy(o, []*v1alpha1.AcmeOrder{by, o}, e.Spec(), now); (got == by) != tc.want {
				t.Errorf("%+v", got)
			}
			if acmeorder.IsSupersededBy(o, []*v1alpha1.AcmeOrder{by}, endpoint(t).Spec(), now) != nil {
				t.Error("without carry-over")
			}
		})
	}
	o := finalized(t, e, newKey(t), dns("a.corp.example")...)
	if s := acmeorder.Supersede(o, by); s == nil || s.SupersededBy != by.Name || acmeorder.Supersede(changed(t, o, s), by) != nil {
		t.Errorf("%+v", s)
	}
	if p := acmeorder.Deny(o, rfc8555.NewProblem(403, "unauthorized", "denied"), acmeorder.ReasonSuperseded, now); p == nil {
		t.Error("it cannot be denied")
	}
}
