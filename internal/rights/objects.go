package rights

import rbacv1 "k8s.io/api/rbac/v1"

// The controllers for housekeeping: they handle objects of any kind.
var (
	// NodeLifecycle sets silent nodes to not ready. It does not need to taint
	// them or to access their pods. Its name and its account's name are those
	// in Kubernetes.
	NodeLifecycle = Controller{
		Name: "node-lifecycle-controller", Account: "node-controller", Where: ByName,
		Doc: "marks silent nodes as not ready, and reports nodes whose names have certificates with another key",
		Rules: []rbacv1.PolicyRule{
			allow(read, coordination, "leases"),
			allow("patch", core, "nodes/status"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readNodes, readCSRs},
	}
	Aggregate = Controller{
		Name: "aggregate", Account: "clusterrole-aggregation-controller", Where: OnlyServe,
		Doc: "fills aggregated ClusterRoles",
		Rules: []rbacv1.PolicyRule{
			// It writes rules that it does not hold itself.
			allow("escalate get list patch update watch", rbac, "clusterroles"),
		},
		Reads: []rbacv1.PolicyRule{allow(read, rbac, "clusterroles")},
	}
	Namespaces = Controller{
		Name: "namespace", Account: "namespace-controller", Where: OnlyServe,
		Doc: "empties namespaces that are being deleted",
		Rules: []rbacv1.PolicyRule{
			// All objects in a namespace are deleted with it.
			allow("delete deletecollection get list", "*", "*"),
			allow(read, core, "namespaces"),
			allow("update", core, "namespaces/finalize", "namespaces/status"),
		},
		Reads: []rbacv1.PolicyRule{readNamespaces},
	}
	ServiceAccounts = Controller{
		Name: "serviceaccount", Account: "service-account-controller", Where: OnlyServe,
		Doc:   "creates the ServiceAccount default in every namespace",
		Rules: []rbacv1.PolicyRule{allow("create", core, "serviceaccounts")},
		Reads: []rbacv1.PolicyRule{readNamespaces, allowOn(read, core, "serviceaccounts", "default")},
	}
	// Tokens reads all Secrets: those for tokens can be in any namespace and
	// have any name.
	Tokens = Controller{
		Name: "token", Account: "tokens-controller", Where: OnlyServe,
		Doc: "fills Secrets for tokens of service accounts",
		Rules: []rbacv1.PolicyRule{
			allow("delete update "+read, core, "secrets"),
			allow("get", core, "serviceaccounts"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{allow(read, core, "serviceaccounts")},
	}
	// Garbage may access everything: any object can own and be owned.
	Garbage = Controller{
		Name: "garbage", Account: "generic-garbage-collector", Where: OnlyServe,
		Doc:   "deletes objects whose owners are deleted",
		Rules: []rbacv1.PolicyRule{allow("delete patch update "+read, "*", "*"), writeEvents()},
	}
	TypeCheck = Controller{
		Name: "typecheck", Account: "validatingadmissionpolicy-status-controller", Where: OnlyServe,
		Doc: "checks the types in the expressions of ValidatingAdmissionPolicies",
		Rules: []rbacv1.PolicyRule{
			allow(read, admissionregistration, "validatingadmissionpolicies"),
			allow("get patch update", admissionregistration, "validatingadmissionpolicies/status"),
		},
	}
	InstallCRDs = Controller{
		Name: "define", Account: "definition-installer", Where: OnlyServe,
		Doc: "keeps the definitions of certplane.dev, cert-manager.io, trust.cert-manager.io and, if enabled, policy.cert-manager.io",
		Rules: []rbacv1.PolicyRule{
			allow(read, apiextensions, "customresourcedefinitions"),
			allowOn("create patch", apiextensions, "customresourcedefinitions",
				"acmeaccountkeys.certplane.dev",
				"acmeaccounts.certplane.dev",
				"acmeendpoints.certplane.dev",
				"acmeexternalkeys.certplane.dev",
				"acmeorders.certplane.dev",
				"certificatepolicies.certplane.dev",
				"certificatepolicyexceptions.certplane.dev",
				"revocations.certplane.dev",
				"signers.certplane.dev",
				"certificaterequests.cert-manager.io",
				"certificates.cert-manager.io",
				"clusterissuers.cert-manager.io",
				"issuers.cert-manager.io",
				"challenges.acme.cert-manager.io",
				"orders.acme.cert-manager.io",
				"bundles.trust.cert-manager.io",
				// If policy.certificateRequestPolicies is enabled.
				"certificaterequestpolicies.policy.cert-manager.io"),
		},
	}
	// FrontProxy keeps the key of a CA in a separate Secret.
	FrontProxy = Controller{
		Name: "front-proxy", Account: "front-proxy-controller", Where: OnlyServe,
		Doc: "lets other API servers, such as DNS webhooks, authenticate this one and its users",
		InNamespace: []rbacv1.PolicyRule{
			allow("create", core, "configmaps", "secrets"),
			allowOn("delete update "+read, core, "configmaps", extensionAuthentication),
			allowOn("update "+read, core, "secrets", "certplane-front-proxy-ca"),
		},
	}
	// PublishApprovalKeys writes the ConfigMap that the webhook writes in a cluster.
	PublishApprovalKeys = Controller{
		Name: "approval-keys", Account: "approval-keys-publisher", Where: OnlyServe,
		Doc:         "publishes the keys that verify the approvals of people",
		InNamespace: ApprovalKeysRules(),
	}
)

// PublishLists signs with the keys of all CAs, but nothing else than lists. In "certplane
// serve" it is told of revocations by the store; in clusters it stores the lists in a
// ConfigMap.
var PublishLists = Controller{
	Name: "publishlists", Account: "revocation-list-publisher", Where: AlwaysInServe, Groups: []string{certplane},
	Doc: "signs the certificate revocation lists of CAs, reports in Revocations that they are listed, and deletes old Revocations",
	Rules: []rbacv1.PolicyRule{
		allow("delete "+read, certplane, "revocations"),
		allow("update", certplane, "revocations/status"),
		writeEvents(),
	},
	InNamespace: []rbacv1.PolicyRule{
		allow("create", core, "configmaps"), // RBAC cannot limit create to a name
		allowOn("get", core, "configmaps", RestoredStore),
		allowOn("update "+read, core, "configmaps", RevocationLists),
	},
}

// FillConfigMaps has an account of its own, because it may write all ConfigMaps.
var FillConfigMaps = Controller{
	Name: "fillconfigmaps", Account: "revocation-list-filler", Where: ByName,
	Doc: "keeps revocation lists in the ConfigMaps that ask for them",
	Rules: []rbacv1.PolicyRule{
		allow("patch "+read, core, "configmaps"),
		writeEvents(),
	},
}

// RevocationLists is the ConfigMap in the namespace of the controllers' accounts with the
// revocation lists of a cluster.
const RevocationLists = "certplane-revocation-lists"

// RestoredStore is the ConfigMap of a server whose store was restored from a backup, until
// somebody has said what was revoked since: no revocation list is signed meanwhile.
// RestoredFrom is its key with the time of the backup.
const (
	RestoredStore = "certplane-restored"
	RestoredFrom  = "backup"
)

// ApprovalKeys is the ConfigMap in the namespace of the controllers' accounts with the
// public keys that verify the approvals of people.
const ApprovalKeys = "certplane-approval-keys"

// ApprovalKeysRules returns the rights that an account needs in its namespace to keep
// this ConfigMap.
func ApprovalKeysRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// The right to create an object cannot be restricted to a name.
		allow("create", core, "configmaps"),
		allowOn("delete update "+read, core, "configmaps", ApprovalKeys),
	}
}

// extensionAuthentication is the ConfigMap in kube-system with which other API servers
// authenticate the clients of this one.
const extensionAuthentication = "extension-apiserver-authentication"

// Parts of Kubernetes that can run as clients of "certplane serve".
var (
	KubeCertificates = Controller{
		Name: "csrapproving, csrsigning, csrcleaner", Account: "certificate-controller", Where: Peer,
		Doc: "the approver, signer and cleaner of kube-controller-manager",
		Rules: []rbacv1.PolicyRule{
			allow("delete "+read, certificates, "certificatesigningrequests"),
			allow("update", certificates, "certificatesigningrequests/approval", "certificatesigningrequests/status"),
			approveKubelets,
			signBuiltIn,
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		},
	}
	KubeTrust = Controller{
		Name:    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
		Account: "kube-apiserver-serving-clustertrustbundle-publisher", Where: Peer,
		Doc: "kube-controller-manager's publisher of the roots of API servers",
		Rules: []rbacv1.PolicyRule{
			allow("create delete list update watch", certificates, "clustertrustbundles"),
			allowOn("attest", certificates, "signers", apiServerServing),
			writeEvents(),
		},
	}
)
