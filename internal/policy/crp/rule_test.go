package crp_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/crp"
)

// The value is web.shop, the request web-1 in shop. want is the violation after
// the field; empty if the rule holds.
func TestRules(t *testing.T) {
	const account, person = "system:serviceaccount:shop:web", "ann"
	tests := []struct {
		reason, rule, username string
		groups                 []string
		want                   string
	}{
		{reason: "self", rule: `self == 'web.shop'`},
		{reason: "cr", rule: `self == 'web.' + cr.namespace && cr.name == 'web-1'`},
		{reason: "requester", rule: `cr.username == 'ann' && 'g' in cr.groups`, username: person, groups: []string{"g"}},
		{reason: "no group", rule: `cr.groups.size() == 0 && !has(cr.groups) && !has(cr.username) && has(cr.name)`},
		{reason: "extended strings", rule: `self.split('.')[0].upperAscii() == 'WEB' && '%s.%s'.format(['web', cr.namespace]) == self`},
		{reason: "service account", rule: `isServiceAccount(cr.username) && serviceAccount(cr.username).getNamespace() == cr.namespace && serviceAccount(cr.username).getName() == 'web'`, username: account},
		{reason: "accounts are compared", rule: `serviceAccount(cr.username) == serviceAccount('system:serviceaccount:shop:web')`, username: account},
		{reason: "an account as a type", rule: `type(serviceAccount(cr.username)) != string`, username: account},
		{reason: "not a service account", rule: `!isServiceAccount(cr.username)`, username: person},
		{reason: "an account of another", rule: `serviceAccount(cr.username).getName() == 'x'`, username: person,
			want: "Internal error: Unable to convert to serviceaccount: err: Username must be in the form system:serviceaccount:namespace:name, username: ann"},
		{reason: "fails", rule: `self.split('.')[7] == ''`, want: "Internal error: index out of bounds: 7"},
		{reason: "a request can be made", rule: `cm.io.policy.pkg.internal.approver.validation.CertificateRequest{name: 'web-1', namespace: 'shop'} == cr`},
		{reason: "no bool", rule: `self`, want: "Internal error: got string, wanted bool result type"},
		{reason: "unknown type", rule: `dyn(true)`, want: "Internal error: got dyn, wanted bool result type"},
		{reason: "does not compile", rule: `x`, want: "Internal error: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | ^"},
		{reason: "unknown field", rule: `cr.x == ''`, want: "Internal error: ERROR: <input>:1:3: undefined field 'x'\n | cr.x == ''\n | ..^"},
		{reason: "wrong type", rule: `cr == 1`, want: "Internal error: ERROR: <input>:1:4: found no matching overload for '_==_' applied to '(cm.io.policy.pkg.internal.approver.validation.CertificateRequest, int)'\n | cr == 1\n | ...^"},
		{reason: "costs too much", rule: costly, want: "Internal error: operation cancelled: actual cost limit exceeded"},
	}
	for _, tc := range tests {
		a := asks{dns: []string{"web.shop"}, username: tc.username, groups: tc.groups}
		got := violationOf(t, tc.rule, a)
		if got, _ = strings.CutPrefix(got, "spec.allowed.dnsNames.validations[0]: "); got != tc.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tc.reason, got, tc.want)
		}
	}
}

const costly = `'0123456789'.split('').all(a, '0123456789'.split('').all(b, '0123456789'.split('').all(c, '0123456789'.split('').all(d, ` +
	`'0123456789'.split('').all(e, '0123456789'.split('').all(f, a + b + c + d + e + f != self))))))`

func ruleSpec(rule string) string {
	return "allowed:\n  dnsNames:\n    validations:\n    - rule: |-\n        " + rule
}

func violationOf(t testing.TB, rule string, a asks) string {
	t.Helper()
	result, err := crp.Decide([]*crp.Policy{policy(t, "p", ruleSpec(rule))}, a.request(t), everybody)
	if err != nil {
		t.Fatal(err)
	}
	return result.Considered[0].Violations
}

// A policy is used by several decisions at once: with the race detector, the
// test finds writes.
func TestConcurrentUse(t *testing.T) {
	p, cr := policy(t, "p", ruleSpec(`self.endsWith(cr.namespace)`)), asks{dns: []string{"web.shop"}}.request(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if result, err := crp.Decide([]*crp.Policy{p}, cr, everybody); err != nil || result.Outcome != v1alpha1.OutcomeApprove {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	group.Wait()
}
