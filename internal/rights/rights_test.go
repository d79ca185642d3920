package rights

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Every row describes a controller completely and once, and an account has its
// rules in one place.
func TestRows(t *testing.T) {
	type identity struct{ name, account string }
	seen, ruled := map[identity]bool{}, map[string]bool{}
	for _, c := range Controllers() {
		if c.Name == "" || c.Account == "" || c.Doc == "" || c.Where == "" {
			t.Errorf("%s as %s: a field is missing in %+v", c.Name, c.Account, c)
		}
		if id := (identity{c.Name, c.Account}); seen[id] {
			t.Errorf("%s as %s is listed twice", c.Name, c.Account)
		} else {
			seen[id] = true
		}
		if len(c.Rules) > 0 && ruled[c.Account] {
			t.Errorf("%s has rules in two rows", c.Account)
		}
		ruled[c.Account] = ruled[c.Account] || len(c.Rules) > 0 || len(c.InNamespace) > 0
	}
	for id := range seen {
		if !ruled[id.account] {
			t.Errorf("%s may do nothing", id.account)
		}
	}
}

// The cache reads only for the controllers that run.
func TestCacheRules(t *testing.T) {
	requests := func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "certificatesigningrequests") }
	for _, tt := range []struct {
		reason   string
		accounts []string
		rules    int
		requests bool
	}{
		{"two that read the same", []string{Approve.Account, Sign.Account}, 1, true},
		{"one that reads nodes and requests", []string{NodeLifecycle.Account}, 2, true},
		{"one that reads nothing", []string{Garbage.Account}, 0, false},
		{"all", nil, 19, true},
	} {
		got := CacheRules(tt.accounts...)
		if len(got) != tt.rules || slices.ContainsFunc(got, requests) != tt.requests {
			t.Errorf("%s: %v", tt.reason, got)
		}
	}
}

func TestWritesEvents(t *testing.T) {
	for account, want := range map[string]bool{Sign.Account: true, SignPods.Account: true, Garbage.Account: true, Namespaces.Account: false, "nobody": false} {
		if got := WritesEvents(account); got != want {
			t.Errorf("%s: %t", account, got)
		}
	}
}
