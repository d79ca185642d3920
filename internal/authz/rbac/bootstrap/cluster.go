package bootstrap

import (
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// reads is what the cache that all controllers of a process share reads for
// the controller of each account.
func reads() []controller {
	requests := allow(read, certificates, "certificatesigningrequests")
	namespaces := allow(read, core, "namespaces")
	nodes := allow(read, core, "nodes")
	issuers := allow(read, certManager, "clusterissuers", "issuers")
	issuerRequests := allow(read, certManager, "certificaterequests")
	return []controller{
		{"csr-approver", []rbacv1.PolicyRule{requests}},
		{"csr-signer", []rbacv1.PolicyRule{requests}},
		{"csr-webhook-signer", []rbacv1.PolicyRule{requests}},
		{signerManager, []rbacv1.PolicyRule{allow(read, certplane, "signers")}},
		{"declared-signer", []rbacv1.PolicyRule{
			requests,
			allow(read, certificates, "podcertificaterequests"),
			nodes,
			allow(read, core, "pods", "serviceaccounts", "services"),
			namespaces,
		}},
		{"cert-manager-certificates", []rbacv1.PolicyRule{issuerRequests, allow(read, certManager, "certificates")}},
		{"cert-manager-issuers", []rbacv1.PolicyRule{issuers}},
		{"cert-manager-certificaterequests", []rbacv1.PolicyRule{issuers, issuerRequests}},
		{"cert-manager-certificatesigningrequests", []rbacv1.PolicyRule{requests, issuers}},
		{"cert-manager-certificaterequests-approver", []rbacv1.PolicyRule{issuerRequests}},
		{"csr-cleaner", []rbacv1.PolicyRule{requests}},
		{"clusterrole-aggregation-controller", []rbacv1.PolicyRule{allow(read, rbac, "clusterroles")}},
		{"namespace-controller", []rbacv1.PolicyRule{namespaces}},
		{"node-controller", []rbacv1.PolicyRule{nodes}},
		{"root-ca-cert-publisher", []rbacv1.PolicyRule{namespaces, allowOn(read, core, "configmaps", "kube-root-ca.crt")}},
		{"tokens-controller", []rbacv1.PolicyRule{allow(read, core, "serviceaccounts")}},
		{"service-account-controller", []rbacv1.PolicyRule{namespaces, allowOn(read, core, "serviceaccounts", "default")}},
	}
}

// CacheRules is what the cache of a process with the controllers of these
// accounts may do; without any, that of all controllers.
func CacheRules(accounts ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, c := range reads() {
		if len(accounts) > 0 && !slices.Contains(accounts, c.account) {
			continue
		}
		for _, rule := range c.rules {
			if !slices.ContainsFunc(rules, func(known rbacv1.PolicyRule) bool { return reflect.DeepEqual(known, rule) }) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// ControllerRules is what the controller of an account may do, in this server
// or in any cluster.
func ControllerRules(account string) []rbacv1.PolicyRule {
	for _, c := range controllers() {
		if c.account == account {
			return c.rules
		}
	}
	return nil
}
