package acmeorder_test

import (
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestAdmitFinalize(t *testing.T) {
	e, key := endpoint(t), newKey(t)
	ready := proven(t, e, newOrder(t, e, dns("a.corp.example")...))
	csr := csrFor(t, key, ready, nil)
	processing := changed(t, ready, acmeorder.Finalize(ready, csr, acmeorder.Reference(ready, e.Profile(ready.Spec.Profile)), 168*time.Hour, now))
	issued, _, _ := valid(t, e, dns("a.corp.example")...)
	near := ready.DeepCopy()
	near.Spec.NotAfter = moment(now.Add(11 * time.Minute))
	type change = func(*v1alpha1.AcmeEndpoint)
	for _, tc := range []struct {
		reason  string
		order   *v1alpha1.AcmeOrder
		csr     []byte
		change  change
		account func(*v1alpha1.AcmeAccount)
		at      time.Time
		kind    string
		again   bool
		becomes string // "" if nothing is stored
	}{
		{reason: "ready", order: ready, csr: csr, becomes: "processing"},
		{reason: "pending", order: newOrder(t, e, dns("a.corp.example")...), csr: csr, kind: "orderNotReady"},
		{reason: "a bad request", order: ready, csr: []byte("x"), kind: "badCSR"},
		{reason: "the same while processing", order: processing, csr: csr, again: true},
		{reason: "another while processing", order: processing, csr: csrFor(t, newKey(t), ready, nil), kind: "orderNotReady"},
		{reason: "the same for a valid order", order: issued, csr: issued.Status.CSR, again: true},
		{reason: "another for a valid order", order: issued, csr: csr, kind: "orderNotReady"},
		{reason: "nothing for a valid order without its request", order: func() *v1alpha1.AcmeOrder { o := issued.DeepCopy(); o.Status.CSR = nil; return o }(), kind: "orderNotReady"},
		{reason: "expired", order: ready, csr: csr, at: now.Add(25 * time.Hour), kind: "orderNotReady"},
		{reason: "waited too long", order: processing, csr: csr, at: now.Add(200 * time.Hour), kind: "orderNotReady"},
		{reason: "the account is revoked", order: ready, csr: csr, account: func(a *v1alpha1.AcmeAccount) { a.Spec.Decision = "Revoked" }, kind: "unauthorized"},
		{reason: "new terms", order: ready, csr: csr, change: func(e *v1alpha1.AcmeEndpoint) { e.Spec.Accounts.TermsOfService = "https://corp.example/tos/3" }, kind: "userActionRequired"},
		{reason: "the profile is gone", order: ready, csr: csr, change: func(e *v1alpha1.AcmeEndpoint) { e.Spec.Profiles = e.Spec.Profiles[1:] }, kind: "invalidProfile", becomes: "invalid"},
		{reason: "the name is not allowed anymore", order: ready, csr: csr, change: func(e *v1alpha1.AcmeEndpoint) { e.Spec.Identifiers.DNS.Deny = []string{"a.corp.example"} }, kind: "rejectedIdentifier", becomes: "invalid"},
		{reason: "notAfter is near", order: near, csr: csr, at: now.Add(2 * time.Minute), kind: "unauthorized", becomes: "invalid"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			e, who, at := endpoint(t), account(), now
			if tc.change != nil {
				e = endpoint(t, tc.change)
			}
			if tc.account != nil {
				tc.account(who)
			}
			if !tc.at.IsZero() {
				at = tc.at
			}
			d, p := e.AdmitFinalize(acmeorder.Finalization{Order: tc.order, CSR: tc.csr, Account: facts(who, nil)}, at)
			assertProblem(t, p, tc.kind, "")
			becomes := ""
			if d.Status != nil {
				becomes = string(d.Status.State)
			}
			if d.Again != tc.again || becomes != tc.becomes {
				t.Errorf("%+v", d)
			}
		})
	}
}
