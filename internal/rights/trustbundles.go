package rights

import rbacv1 "k8s.io/api/rbac/v1"

// WriteTrustBundles reads all Secrets, but only copies certificates. It may write every ConfigMap,
// ClusterTrustBundle without a signer and, if enabled, Secret: its targets have any name.
var WriteTrustBundles = Controller{
	Name: "trustbundles", Account: "trust-bundle-writer", Where: ByName, Groups: []string{certplane},
	Doc:   "collects roots from the sources of TrustBundles in ConfigMaps, ClusterTrustBundles and, if enabled, Secrets",
	Rules: TrustBundleRules(true),
}

// TrustBundleRules returns the rights of WriteTrustBundles, with those to write Secrets or without.
func TrustBundleRules(secretTargets bool) []rbacv1.PolicyRule {
	secrets := read
	if secretTargets {
		secrets = "create delete update " + read
	}
	return []rbacv1.PolicyRule{
		allow(read, certplane, "trustbundles"),
		// Finalizers are for targets, whose owners must not be deleted before them.
		allow("update", certplane, "trustbundles/finalizers", "trustbundles/status"),
		allow(secrets, core, "secrets"),
		allow("create delete update "+read, core, "configmaps"),
		allow("create delete update "+read, certificates, "clustertrustbundles"),
		readIssuers,
		writeEvents(),
	}
}

// TrustRoles returns the rights of users of TrustBundles. They let a user copy certificates,
// but nothing else, out of Secrets that the user cannot read.
func TrustRoles() []Role {
	return []Role{
		{Name: "certplane-trust-view", Doc: "reads TrustBundles in a namespace; part of `view`", Joins: toView, Rules: []rbacv1.PolicyRule{
			allow(read, certplane, "trustbundles"),
		}},
		{Name: "certplane-trust-edit", Doc: "writes TrustBundles in a namespace, and with them ConfigMaps and, if enabled, Secrets; part of `edit`", Joins: toEdit, Rules: []rbacv1.PolicyRule{
			allow(write, certplane, "trustbundles"),
		}},
	}
}
