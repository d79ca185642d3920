package rights

import rbacv1 "k8s.io/api/rbac/v1"

// issuerSigners are the names under which the right to approve and to sign for
// all issuers of cert-manager.io is granted.
var issuerSigners = []string{"issuers." + certManager + "/*", "clusterissuers." + certManager + "/*"}

// ofCertManager are the API groups of the kinds that come with cert-manager.io.
var ofCertManager = []string{certManager, acme}

// Rules for several controllers; the first ones are those of the shared cache.
var (
	readIssuers      = allow(read, certManager, "clusterissuers", "issuers")
	readRequests     = allow(read, certManager, "certificaterequests")
	readCertificates = allow(read, certManager, "certificates")
	readOrders       = allow(read, acme, "orders")

	writeCertificates = allow("create delete get update", certManager, "certificates")
)

// The controllers of cert-manager.io. The Secrets of Issuers and Certificates
// can be in any namespace and have any name. The verbs list and watch are for
// noticing changes.
var (
	CheckIssuers = Controller{
		Name: "issuers", Account: "cert-manager-issuers", Where: ByName, Groups: ofCertManager,
		Doc: "sets the status of Issuers and ClusterIssuers: whether they can sign",
		Rules: []rbacv1.PolicyRule{
			allow("update", certManager, "clusterissuers/status", "issuers/status"),
			// Creates the keys of ACME accounts, and replaces them if an issuer requests
			// it.
			allow("create update "+read, core, "secrets"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readIssuers},
	}
	AnswerRequests = Controller{
		Name: "certificaterequests", Account: "cert-manager-certificaterequests", Where: ByName, Groups: ofCertManager,
		Doc: "answers CertificateRequests to Issuers, and passes Revocations on to their CAs",
		Rules: []rbacv1.PolicyRule{
			// patch sets the annotation for retrieving certificates of Venafi issuers.
			allow("get patch", certManager, "certificaterequests"),
			allow("patch update", certManager, "certificaterequests/status"),
			// For Orders, whose owners must not be deleted before them.
			allow("update", certManager, "certificaterequests/finalizers"),
			allow("create delete get list", acme, "orders"),
			// Orders name the certificate that they renew.
			allow("get", certManager, "certificates"),
			allow(read, core, "secrets"),
			// The CAs of issuers are told of Revocations.
			allow(read, certplane, "revocations"),
			allow("update", certplane, "revocations/status"),
			allow("get", certificates, "certificatesigningrequests"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readIssuers, readRequests, readOrders, readCSRs},
	}
	AnswerCSRs = Controller{
		Name: "certificatesigningrequests", Account: "cert-manager-certificatesigningrequests", Where: ByName, Groups: ofCertManager,
		Doc: "answers CertificateSigningRequests that name Issuers",
		Rules: []rbacv1.PolicyRule{
			// patch sets the annotation for retrieving certificates of Venafi issuers.
			allow("get patch", certificates, "certificatesigningrequests"),
			allow("update", certificates, "certificatesigningrequests/status"),
			allowOn("sign", certificates, "signers", issuerSigners...),
			allow("create", authorization, "subjectaccessreviews"),
			allow("update", certificates, "certificatesigningrequests/finalizers"),
			allow("create delete get list", acme, "orders"),
			allow(read, core, "secrets"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCSRs, readIssuers, readOrders},
	}
	ProcessOrders = Controller{
		Name: "orders", Account: "cert-manager-orders", Where: ByName, Groups: ofCertManager,
		Doc: "gets the certificates of Orders from ACME servers",
		Rules: []rbacv1.PolicyRule{
			allow("get", acme, "orders"),
			allow("update", acme, "orders/status"),
			// For Challenges, whose owners must not be deleted before them.
			allow("update", acme, "orders/finalizers"),
			allow("create delete get list", acme, "challenges"),
			allow(read, core, "secrets"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readIssuers, readOrders, allow(read, acme, "challenges")},
	}
	SolveChallenges = Controller{
		Name: "challenges", Account: "cert-manager-challenges", Where: ByName, Groups: ofCertManager,
		Doc: "solves the Challenges of ACME servers",
		Rules: []rbacv1.PolicyRule{
			allow("get update", acme, "challenges"),
			allow("update", acme, "challenges/finalizers", "challenges/status"),
			allow(read, core, "secrets"),
			// Checks whether a namespace is being deleted.
			allow("get", core, "namespaces"),
			// The objects that answer HTTP-01 challenges in a cluster.
			allow("create delete list", core, "pods", "services"),
			allow("create delete get list patch", networking, "ingresses"),
			allow("create delete list patch", gateway, "httproutes"),
			// OpenShift requires it when a host is named.
			allow("create", openShiftRoutes, "routes/custom-host"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readIssuers, allow(read, acme, "challenges")},
	}
	ApproveRequests = Controller{
		Name: "certificaterequests-approver", Account: "cert-manager-certificaterequests-approver", Where: ByName, Groups: ofCertManager,
		Doc: "approves all CertificateRequests of all requesters: disable it where another approver decides",
		Rules: []rbacv1.PolicyRule{
			allow("update", certManager, "certificaterequests/status"),
			allowOn("approve", certManager, "signers", issuerSigners...),
			// Checks whether approver-policy also runs.
			allowOn(read, coordination, "leases", approverPolicy),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readRequests},
	}
	IssueCertificates = Controller{
		Name: "certificates", Account: "cert-manager-certificates", Where: ByName, Groups: ofCertManager,
		Doc: "issues and renews Certificates into Secrets",
		Rules: []rbacv1.PolicyRule{
			allow("get", certManager, "certificates"),
			allow("update", certManager, "certificates/status"),
			// For objects that must not be deleted before what they own.
			allow("update", certManager, "certificates/finalizers"),
			allow("create delete get", certManager, "certificaterequests"),
			allow("create delete patch "+read, core, "secrets"),
			// ACME issuers suggest renewal times.
			allow("get", certManager, "clusterissuers", "issuers"),
			// Revoked certificates are issued again, or not any more.
			allow("list watch", certplane, "revocations"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readRequests, readCertificates},
	}
	ShimIngresses = Controller{
		Name: "ingress-shim", Account: "cert-manager-ingress-shim", Where: OnlyClusters, Groups: ofCertManager,
		Doc: "creates Certificates for annotated Ingresses",
		Rules: []rbacv1.PolicyRule{
			writeCertificates,
			// For Certificates, whose owners must not be deleted before them.
			allow("update", networking, "ingresses/finalizers"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCertificates, allow(read, networking, "ingresses")},
	}
	ShimGateways = Controller{
		Name: "gateway-shim", Account: "cert-manager-gateway-shim", Where: OnlyClusters, Groups: ofCertManager,
		Doc: "creates Certificates for annotated Gateways and ListenerSets",
		Rules: []rbacv1.PolicyRule{
			writeCertificates,
			allow("update", gateway, "gateways/finalizers", "listenersets/finalizers"),
			writeEvents(),
		},
		// Gateways can select namespaces by labels.
		Reads: []rbacv1.PolicyRule{readCertificates, allow(read, gateway, "gateways", "listenersets"), readNamespaces},
	}
)

// InjectCAs can change what the API server calls and trusts, so its account is as strong as
// an administrator.
var InjectCAs = Controller{
	Name: "cainjector", Account: "cert-manager-cainjector", Where: ByName,
	Doc: "writes CAs into the webhook configurations, CustomResourceDefinitions and APIServices whose annotations name a source",
	Rules: append(CASourceRules(),
		allow("patch "+read, admissionregistration, "mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
		allow("patch "+read, apiextensions, "customresourcedefinitions"),
		allow("patch "+read, apiregistration, "apiservices"),
		writeEvents(),
	),
}

// CASourceRules returns the rights of InjectCAs to the sources of CAs. They are needed in
// one namespace only if the configuration names one.
func CASourceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow(read, core, "secrets"), allow(read, certManager, "certificates")}
}

// SpreadBundles may write all ConfigMaps, and in "certplane serve" all Secrets.
var SpreadBundles = Controller{
	Name: "bundles", Account: "trust-manager", Where: ByName, Groups: []string{trustManager},
	Doc:   "writes the certificates of trust-manager's Bundles into ConfigMaps and Secrets",
	Rules: append(BundleRules(), BundleTargetRules(true)...),
	Reads: []rbacv1.PolicyRule{readNamespaces},
}

// BundleRules returns the rights of SpreadBundles, without those to sources and targets.
func BundleRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow(read, trustManager, "bundles"),
		allow("patch", trustManager, "bundles/status"),
		// For targets, whose owners must not be deleted before them.
		allow("update", trustManager, "bundles/finalizers"),
		writeEvents(),
	}
}

// BundleSourceRules returns the rights of SpreadBundles to sources. They are needed in the
// trust namespace only.
func BundleSourceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow(read, core, "configmaps", "secrets")}
}

// BundleTargetRules returns the rights of SpreadBundles to targets: to ConfigMaps, and to all
// Secrets or those with these names.
func BundleTargetRules(allSecrets bool, secrets ...string) []rbacv1.PolicyRule {
	const verbs = "create delete patch " + read
	rules := []rbacv1.PolicyRule{allow(verbs, core, "configmaps")}
	switch {
	case allSecrets:
		rules = append(rules, allow(verbs, core, "secrets"))
	case len(secrets) > 0:
		rules = append(rules, allowOn(verbs, core, "secrets", secrets...))
	}
	return rules
}

// BundleRoles returns the rights of users of Bundles. Bundles are of the whole cluster, so none of
// them is part of the roles in namespaces, as in trust-manager's chart.
func BundleRoles() []Role {
	return []Role{{Name: "trust-manager-cluster-view", Doc: "reads Bundles", Joins: toClusterReader, Rules: []rbacv1.PolicyRule{
		allow(read, trustManager, "bundles"),
	}}}
}

// WebhookAccount serves the admission webhook in clusters: it checks which
// users may approve, looks for other Signers, and keeps the webhook's
// certificate.
const WebhookAccount = "cert-manager-webhook"

// WebhookRules returns the rights of WebhookAccount in the whole cluster. It
// writes its CA only to the webhook configurations with this name. All users
// may read which kinds of issuers exist.
func WebhookRules(configuration string, admitsSigners bool) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		allow("create", authorization, "subjectaccessreviews"),
		{
			APIGroups:     []string{admissionregistration},
			Resources:     []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			ResourceNames: []string{configuration},
			Verbs:         []string{"get", "list", "watch", "patch"},
		},
	}
	if admitsSigners {
		rules = append(rules, allow("list", certplane, "signers"))
	}
	return rules
}

// RevocationWebhookRules returns the rights of WebhookAccount for the webhook that refuses
// revoked certificates: to follow Revocations.
func RevocationWebhookRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("list watch", certplane, "revocations")}
}

// LedgerRules returns the rights that the account of the shared cache needs in its
// namespace to count the quotas of CertificatePolicies in the ConfigMaps with these
// names. "certplane serve" counts with the server's own rights.
func LedgerRules(names ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// The right to create an object cannot be restricted to a name.
		allow("create", core, "configmaps"),
		allowOn("get update", core, "configmaps", names...),
	}
}

// WebhookSecretRules returns the rights of WebhookAccount in its namespace: to
// keep the Secrets with these names.
func WebhookSecretRules(secrets ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// The right to create an object cannot be restricted to a name.
		allow("create", core, "secrets"),
		allowOn("get list watch update", core, "secrets", secrets...),
	}
}
