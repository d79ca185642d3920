package acmeorder_test

import (
	"testing"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// A new order is refused for its names only if no certificate request could change what
// a policy says.
func TestRefusedByPolicy(t *testing.T) {
	e := endpoint(t)
	o := newOrder(t, e, dns("a.corp.example", "b.corp.example")...)
	planned := acmeorder.Planned{Order: o, Account: account(), Profile: e.Profile(o.Spec.Profile)}
	name := &dns("b.corp.example")[0]
	for _, tc := range []struct {
		reason     string
		objections []acmeorder.Objection
		names      bool
		kind       string
		parts      int
	}{
		{"a name", []acmeorder.Objection{{"one", "no", name}}, true, rfc8555.ProblemRejectedIdentifier, 1},
		{"a name and the key", []acmeorder.Objection{{"one", "no", name}, {"one", "weak", nil}}, true, rfc8555.ProblemRejectedIdentifier, 1},
		{"two policies", []acmeorder.Objection{{"one", "no", name}, {"two", "no", name}}, true, rfc8555.ProblemRejectedIdentifier, 2},
		{"the key for another policy", []acmeorder.Objection{{"one", "no", name}, {"two", "weak", nil}}, false, rfc8555.ProblemUnauthorized, 0},
		{"the key", []acmeorder.Objection{{"one", "weak", nil}}, false, rfc8555.ProblemUnauthorized, 0},
		{"nothing in particular", nil, false, rfc8555.ProblemUnauthorized, 0},
	} {
		p := planned.RefusedByPolicy(tc.objections, "the message")
		if acmeorder.AreAboutNames(tc.objections) != tc.names || !p.HasType(tc.kind) || len(p.Subproblems) != tc.parts || p.Status < 400 {
			t.Errorf("%s: %+v", tc.reason, p)
		}
		hiding := e.Spec().DeepCopy()
		hiding.Approval.HideReasons = true
		if p := acmeorder.HideReason(p, o, hiding); len(p.Subproblems) > 0 || p.Detail != "refused by policy (reference "+o.Name+")" {
			t.Errorf("%s: hidden: %+v", tc.reason, p)
		}
	}
}
