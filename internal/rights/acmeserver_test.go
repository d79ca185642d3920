package rights

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// acmeAccountsRules are the rights of all accounts of the ACME server.
func acmeAccountsRules() map[string][]rbacv1.PolicyRule {
	all := map[string][]rbacv1.PolicyRule{ACMEServerAccount: Of(ACMEServerAccount)}
	for _, c := range []Controller{ServeACMEOrders, ValidateACME, ApproveACME, CleanACME, KeepACMEEndpoints, KeepACMECertificate} {
		all[c.Account] = c.Rules
	}
	return all
}

// grants reports whether a rule gives a verb on a resource of any name.
func grants(rules []rbacv1.PolicyRule, verb, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, verb) && slices.Contains(r.Resources, resource)
	})
}

// What strangers could turn against the cluster, no account of the ACME server has.
func TestACMEServerHasNoMore(t *testing.T) {
	for account, rules := range acmeAccountsRules() {
		for _, r := range rules {
			if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") || slices.Contains(r.APIGroups, "*") {
				t.Errorf("%s has a right to everything: %v", account, r)
			}
		}
		for _, never := range [][2]string{
			{"create", "serviceaccounts/token"}, {"impersonate", "serviceaccounts"}, {"impersonate", "users"}, {"sign", "signers"},
			{"get", "secrets"}, {"list", "secrets"}, {"watch", "secrets"}, {"update", "secrets"}, {"patch", "secrets"},
		} {
			if grants(rules, never[0], never[1]) {
				t.Errorf("%s may %s %s", account, never[0], never[1])
			}
		}
		if got := grants(rules, "approve", "signers"); got != (account == ApproveACME.Account) {
			t.Errorf("%s may approve: %t", account, got)
		}
		if writes := grants(rules, "update", acmeOrders+"/status"); writes != grants(rules, ACMEServe, acmeEndpoints) {
			t.Errorf("%s writes the status of orders: %t, without the verb serve or for nothing", account, writes)
		}
	}
}

// Owners of namespaces consent by name, but for the creation of a Secret, which has
// none.
func TestACMEConsent(t *testing.T) {
	for account, rules := range ACMEConsent("web", "fleet") {
		for _, r := range rules {
			makes := account == KeepACMEEndpoints.Account && slices.Equal(r.Verbs, []string{"create"}) && slices.Equal(r.Resources, []string{"secrets"})
			if len(r.ResourceNames) != 1 && !makes {
				t.Errorf("%s gets more than is named: %v", account, r)
			}
		}
	}
	if got := ACMEConsent("web"); len(got) != 1 || !grants(got[ServeACMEOrders.Account], "create", "serviceaccounts/token") {
		t.Errorf("without Secrets: %v", got)
	}
}

// What keeps the certificate sees one Secret, and cannot approve its own requests.
func TestACMECertificateHasNoMore(t *testing.T) {
	for _, r := range KeepACMECertificate.InNamespace {
		if slices.Contains(r.Resources, "secrets") && !slices.Equal(r.Verbs, []string{"create"}) && !slices.Equal(r.ResourceNames, []string{ACMECertificate}) {
			t.Errorf("it may %v", r)
		}
	}
	rules := slices.Concat(KeepACMECertificate.Rules, KeepACMECertificate.InNamespace)
	for _, never := range []string{"certificatesigningrequests/approval", "certificatesigningrequests/status", "certificaterequests/status"} {
		if grants(rules, "update", never) || grants(rules, "patch", never) {
			t.Errorf("it may write %s", never)
		}
	}
}

// No role lets people write what only the ACME server writes.
func TestACMERoles(t *testing.T) {
	for _, role := range ACMERoles() {
		for _, resource := range []string{acmeOrders, acmeAccountKeys, acmeOrders + "/status", acmeAccounts + "/status", acmeEndpoints + "/status"} {
			for _, verb := range []string{"create", "patch", "update"} {
				if grants(role.Rules, verb, resource) {
					t.Errorf("%s may %s %s", role.Name, verb, resource)
				}
			}
		}
		if grants(role.Rules, ACMEServe, acmeEndpoints) {
			t.Errorf("%s may serve", role.Name)
		}
	}
}
