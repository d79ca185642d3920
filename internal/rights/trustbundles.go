package rights

import rbacv1 "k8s.io/api/rbac/v1"

const trustBundles = "trustbundles"

// WriteTrustBundles reads all Secrets, but only copies certificates. It writes its targets in
// all namespaces, so that it may write every ConfigMap and every ClusterTrustBundle without a
// signer.
var WriteTrustBundles = Controller{
	Name: "trustbundles", Account: "trust-bundle-writer", Where: ByName, Groups: []string{certplane},
	Doc: "collects roots from the sources of TrustBundles in ConfigMaps, Secrets and ClusterTrustBundles",
	Rules: append(TrustSecretRules(),
		allow(read, certplane, trustBundles),
		allow("update", certplane, trustBundles+"/status"),
		// For targets, whose owners must not be deleted before them.
		allow("update", certplane, trustBundles+"/finalizers"),
		allow(read, core, "secrets"),
		allow("create delete update "+read, core, "configmaps"),
		allow("create delete update "+read, certificates, "clustertrustbundles"),
		readIssuers,
		writeEvents(),
	),
}

// TrustSecretRules returns the rights of WriteTrustBundles that it needs only if Secrets may
// be targets.
func TrustSecretRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("create delete update", core, "secrets")}
}

// TrustRoles returns the rights of users of TrustBundles. They let a user copy certificates,
// but nothing else, out of Secrets that the user cannot read.
func TrustRoles() []Role {
	return []Role{
		{Name: "certplane-trust-view", Doc: "reads TrustBundles in a namespace; part of `view`", Joins: toView, Rules: []rbacv1.PolicyRule{
			allow(read, certplane, trustBundles),
		}},
		{Name: "certplane-trust-edit", Doc: "writes TrustBundles in a namespace, and with them ConfigMaps; part of `edit`", Joins: toEdit, Rules: []rbacv1.PolicyRule{
			allow(write, certplane, trustBundles),
		}},
	}
}
