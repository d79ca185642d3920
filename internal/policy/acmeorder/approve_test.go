package acmeorder_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestApproval(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(a *acmeorder.Approval)
		want   string
	}{
		{"all is as it was", nil, ""},
		{"another request with the same content", func(a *acmeorder.Approval) { a.Request.UID = "copy" }, "UID"},
		{"the order names no UID", func(a *acmeorder.Approval) { a.Order.Status.Request.UID, a.Request.UID = "", "" }, "UID"},
		{"the order is valid", func(a *acmeorder.Approval) { a.Order.Status.State = "valid" }, "the order is valid"},
		{"a proof has expired", func(a *acmeorder.Approval) { a.Order.Status.Authorizations[0].Expires = moment(now.Add(-time.Hour)) }, "expired"},
		{"a proof was deactivated", func(a *acmeorder.Approval) { a.Order.Status.Authorizations[0].State = "deactivated" }, "deactivated"},
		{"a proof is for another name", func(a *acmeorder.Approval) { a.Order.Status.Authorizations[0].Identifier.Value = "b.corp.example" }, "is not for"},
		{"proofs are missing", func(a *acmeorder.Approval) { a.Order.Status.Authorizations = nil }, "no authorizations"},
		{"another account", func(a *acmeorder.Approval) { a.Account.Account = account(); a.Account.Account.Name = "bob" }, "another endpoint or account"},
		{"the account is gone", func(a *acmeorder.Approval) { a.Account.Account = nil }, "another endpoint or account"},
		{"the account is revoked", func(a *acmeorder.Approval) { a.Account.Account.Spec.Decision = "Revoked" }, "account revoked"},
		{"the account is deactivated", func(a *acmeorder.Approval) { a.Account.Account.Status.State = "deactivated" }, "deactivated"},
		{"the ServiceAccount is gone", func(a *acmeorder.Approval) { a.Account.ServiceAccountGone = true }, "ServiceAccount is gone"},
		{"the account waits", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.Admission = "Approval" })
		}, "approve the account"},
		{"the profile is gone", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles = e.Spec.Profiles[1:] })
		}, "no profile"},
		{"the endpoint is narrower", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.DNS.Deny = []string{"a.corp.example"} })
		}, "not allowed"},
		{"the signer is another", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles[0].Signer.Name = "corp.example/others" })
		}, "signer"},
		{"the profile has other types of keys", func(a *acmeorder.Approval) {
			a.Endpoint = endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles[0].KeyTypes = []string{"RSA2048"} })
		}, "no keys of type"},
		{"the key is compromised", func(a *acmeorder.Approval) { a.Keys.Blocked = func(string) bool { return true } }, "compromised"},
		{"another requester", func(a *acmeorder.Approval) { a.Request.Requester.Username = "mallory" }, "requester"},
		{"another certificate request", func(a *acmeorder.Approval) { a.Request.PEM = []byte("x") }, "certificate request"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e := endpoint(t)
			o := finalized(t, e, newKey(t), dns("a.corp.example")...)
			a := acmeorder.Approval{Order: o, Request: stored(t, e, o, nil), Endpoint: e, Account: facts(account(), nil)}
			if tc.change != nil {
				tc.change(&a)
			}
			if err := a.Check(now); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestCarryOver(t *testing.T) {
	e := endpoint(t)
	earlier := func(change ...func(*v1alpha1.AcmeOrder)) *v1alpha1.AcmeOrder {
		o := finalized(t, e, newKey(t), dns("a.corp.example", "b.corp.example")...)
		o.Name, o.Status.Approval = "earlier", &v1alpha1.AcmeOrderApproval{By: "carol", Time: metav1.Time{Time: now.Add(-time.Hour)}}
		for _, c := range change {
			c(o)
		}
		return o
	}
	denied := func(at time.Time, reason string) *v1alpha1.AcmeOrder {
		o := finalized(t, e, newKey(t), dns("a.corp.example")...)
		o.Name = "denied"
		return changed(t, o, acmeorder.Deny(o, rfc8555.NewProblem(403, "unauthorized", "denied: x: y"), reason, at))
	}
	var used []*v1alpha1.AcmeOrder
	for i := range 5 {
		used = append(used, earlier(func(o *v1alpha1.AcmeOrder) {
			o.Name, o.Status.Approval = "used"+string(rune('0'+i)), &v1alpha1.AcmeOrderApproval{CarriedFrom: "earlier", Time: metav1.Time{Time: now}}
		}))
	}
	for _, tc := range []struct {
		reason string
		others []*v1alpha1.AcmeOrder
		period time.Duration
		want   bool
	}{
		{"approved by a person", []*v1alpha1.AcmeOrder{earlier()}, 24 * time.Hour, true},
		{"off", []*v1alpha1.AcmeOrder{earlier()}, 0, false},
		{"too long ago", []*v1alpha1.AcmeOrder{earlier()}, time.Hour - time.Second, false},
		{"approved by right", []*v1alpha1.AcmeOrder{earlier(func(o *v1alpha1.AcmeOrder) { o.Status.Approval.By = "" })}, 24 * time.Hour, false},
		{"itself carried over", []*v1alpha1.AcmeOrder{earlier(func(o *v1alpha1.AcmeOrder) { o.Status.Approval.CarriedFrom = "x" })}, 24 * time.Hour, false},
		{"not approved", []*v1alpha1.AcmeOrder{earlier(func(o *v1alpha1.AcmeOrder) { o.Status.Approval = nil })}, 24 * time.Hour, false},
		{"another account", []*v1alpha1.AcmeOrder{earlier(func(o *v1alpha1.AcmeOrder) { o.Spec.Account = "bob" })}, 24 * time.Hour, false},
		{"another profile", []*v1alpha1.AcmeOrder{earlier(func(o *v1alpha1.AcmeOrder) { o.Spec.Profile = "mesh" })}, 24 * time.Hour, false},
		{"fewer names", []*v1alpha1.AcmeOrder{earlier(func(o *v1alpha1.AcmeOrder) { o.Spec.Identifiers = o.Spec.Identifiers[1:] })}, 24 * time.Hour, false},
		{"a denial since", []*v1alpha1.AcmeOrder{earlier(), denied(now, "No")}, 24 * time.Hour, false},
		{"a denial before", []*v1alpha1.AcmeOrder{earlier(), denied(now.Add(-2*time.Hour), "No")}, 24 * time.Hour, true},
		{"a superseded one since", []*v1alpha1.AcmeOrder{earlier(), denied(now, acmeorder.ReasonSuperseded)}, 24 * time.Hour, true},
		{"used four times", append([]*v1alpha1.AcmeOrder{earlier()}, used[:4]...), 24 * time.Hour, true},
		{"used five times", append([]*v1alpha1.AcmeOrder{earlier()}, used...), 24 * time.Hour, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			o := finalized(t, e, newKey(t), dns("a.corp.example")...)
			if got := acmeorder.CarryOver(o, tc.others, tc.period, now); (len(got) > 0) != tc.want {
				t.Errorf("%d orders", len(got))
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	e := endpoint(t)
	by := finalized(t, e, newKey(t), dns("a.corp.example", "b.corp.example")...)
	other := func(name string, change func(*v1alpha1.AcmeOrder)) *v1alpha1.AcmeOrder {
		o := finalized(t, e, newKey(t), dns("a.corp.example")...)
		o.Name, o.Status.Finalized = name, moment(now.Add(-time.Hour))
		if change != nil {
			change(o)
		}
		return o
	}
	others := []*v1alpha1.AcmeOrder{
		by, other("waits", nil),
		other("approved", func(o *v1alpha1.AcmeOrder) { o.Status.Approval = &v1alpha1.AcmeOrderApproval{} }),
		other("later", func(o *v1alpha1.AcmeOrder) { o.Status.Finalized = moment(now.Add(time.Second)) }),
		other("more", func(o *v1alpha1.AcmeOrder) {
			o.Spec.Identifiers = append(o.Spec.Identifiers, v1alpha1.AcmeIdentifier{Type: "dns", Value: "c.corp.example"})
		}),
		other("ended", func(o *v1alpha1.AcmeOrder) { o.Status.State = "invalid" }),
	}
	var names []string
	for _, o := range acmeorder.Superseded(by, others, now) {
		names = append(names, o.Name)
	}
	if !slices.Equal(names, []string{"waits"}) {
		t.Errorf("%v", names)
	}
}
