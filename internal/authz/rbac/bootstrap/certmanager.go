package bootstrap

import rbacv1 "k8s.io/api/rbac/v1"

// definitions are those of the kinds that the server brings along.
func definitions() []string {
	return []string{
		"signers.certplane.dev",
		"certificaterequests.cert-manager.io",
		"certificates.cert-manager.io",
		"clusterissuers.cert-manager.io",
		"issuers.cert-manager.io",
		"challenges.acme.cert-manager.io",
		"orders.acme.cert-manager.io",
	}
}

// IssuerSigners are the names under which the right to approve and to sign for
// all issuers of this API is granted.
func IssuerSigners() []string {
	return []string{"issuers." + certManager + "/*", "clusterissuers." + certManager + "/*"}
}

// CertManagerRoles returns what users of cert-manager.io may do, by role. None
// of the roles lets anybody approve: that takes a right to signers, and to
// certificaterequests/status. Nor do they let ClusterIssuers be written.
func CertManagerRoles() []*rbacv1.ClusterRole {
	var out []*rbacv1.ClusterRole
	for _, r := range certManagerRoles() {
		out = append(out, r.object())
	}
	return out
}

func certManagerRoles() []role {
	return []role{
		{name: "cert-manager-view", joins: toView, rules: []rbacv1.PolicyRule{
			allow(read, certManager, "certificaterequests", "certificates", "issuers"),
			allow(read, acme, "challenges", "orders"),
		}},
		{name: "cert-manager-edit", joins: toEdit, rules: []rbacv1.PolicyRule{
			allow(write, certManager, "certificaterequests", "certificates", "issuers"),
			// To have a certificate renewed is to set a condition.
			allow("update", certManager, "certificates/status"),
			// Challenges and orders are worked off with the credentials of their
			// issuer, so only controllers say what is in them. Users may unblock
			// what is stuck: the content of a challenge never changes.
			allow("delete deletecollection patch update", acme, "challenges"),
			allow("delete deletecollection", acme, "orders"),
		}},
		{name: "cert-manager-cluster-view", rules: []rbacv1.PolicyRule{
			allow(read, certManager, "clusterissuers"),
		}},
		// For whoever approves requests to all issuers of this API.
		{name: "cert-manager-controller-approve:cert-manager-io", rules: []rbacv1.PolicyRule{
			allowOn("approve", certManager, "signers", IssuerSigners()...),
		}},
	}
}
