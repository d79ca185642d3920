package bootstrap

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// controller is a line of the table of controllers: what the service account
// of this name in kube-system may do.
type controller struct {
	account string
	rules   []rbacv1.PolicyRule
}

// controllers are the parts that act on their own. No account of certplane's
// own both approves and signs.
func controllers() []controller {
	return slices.Concat(certificateControllers(), issuerControllers(), objectControllers(), peerControllers())
}

// certificateControllers work for certificates.k8s.io.
func certificateControllers() []controller {
	return []controller{
		{"controller-cache", CacheRules()},
		{"csr-approver", []rbacv1.PolicyRule{
			allow(read, certificates, "certificatesigningrequests"),
			allow("update", certificates, "certificatesigningrequests/approval"),
			allowOn("approve", certificates, "signers", certificatesv1.KubeAPIServerClientKubeletSignerName),
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		}},
		{"csr-signer", []rbacv1.PolicyRule{
			allow(read, certificates, "certificatesigningrequests"),
			allow("patch update", certificates, "certificatesigningrequests/status"),
			allowOn("sign", certificates, "signers",
				certificatesv1.KubeAPIServerClientSignerName,
				certificatesv1.KubeAPIServerClientKubeletSignerName,
				certificatesv1.KubeletServingSignerName,
				legacyUnknown),
			writeEvents(),
		}},
		// For which signers it signs is in the configuration: ReconcileDelegated.
		{delegatedAccount, []rbacv1.PolicyRule{
			allow(read, certificates, "certificatesigningrequests"),
			allow("patch update", certificates, "certificatesigningrequests/status"),
			writeEvents(),
		}},
		// It keeps the CAs of declared signers, in Secrets of the namespace of the
		// accounts alone: signerSecrets.
		{signerManager, []rbacv1.PolicyRule{
			allow("get", certplane, "signers"),
			allow("patch update", certplane, "signers/status"),
			writeEvents(),
		}},
		// Signers are declared at any time, under any name.
		{"declared-signer", []rbacv1.PolicyRule{
			allow("get", certificates, "certificatesigningrequests", "podcertificaterequests"),
			allow("patch update", certificates, "certificatesigningrequests/status", "podcertificaterequests/status"),
			allow("sign", certificates, "signers"),
			allow("get", core, "namespaces", "nodes", "pods", "serviceaccounts"),
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		}},
		{"csr-cleaner", []rbacv1.PolicyRule{
			allow("delete", certificates, "certificatesigningrequests"),
			writeEvents(),
		}},
		{"podcertificaterequestcleaner", []rbacv1.PolicyRule{
			allow("delete "+read, certificates, "podcertificaterequests"),
			writeEvents(),
		}},
		{"root-ca-cert-publisher", []rbacv1.PolicyRule{
			allow("create update", core, "configmaps"),
			writeEvents(),
		}},
		{"trust-bundle-publisher", []rbacv1.PolicyRule{
			allow("create delete list update watch", certificates, "clustertrustbundles"),
			// Signers are declared at any time, under any name.
			allow("attest", certificates, "signers"),
			writeEvents(),
		}},
		{"signer-installer", []rbacv1.PolicyRule{
			allowOn("create get patch", certplane, "signers", "spiffe", "service-dns", "kube-apiserver-client-pod"),
			allow("list watch", certplane, "signers"),
			writeEvents(),
		}},
	}
}

// issuerControllers work for cert-manager.io.
func issuerControllers() []controller {
	return []controller{
		// It keeps what Certificates ask for in Secrets of any namespace and name.
		{"cert-manager-certificates", []rbacv1.PolicyRule{
			allow("get", certManager, "certificates"),
			allow("update", certManager, "certificates/status"),
			// For who must not be deleted before what it owns.
			allow("update", certManager, "certificates/finalizers"),
			allow("create delete get", certManager, "certificaterequests"),
			allow("create delete patch "+read, core, "secrets"),
			writeEvents(),
		}},
		// The Secrets of Issuers can be in any namespace and have any name. To list
		// and watch is to learn of changes.
		{"cert-manager-issuers", []rbacv1.PolicyRule{
			allow("update", certManager, "clusterissuers/status", "issuers/status"),
			allow(read, core, "secrets"),
			writeEvents(),
		}},
		{"cert-manager-certificaterequests", []rbacv1.PolicyRule{
			allow("get", certManager, "certificaterequests"),
			allow("patch update", certManager, "certificaterequests/status"),
			allow(read, core, "secrets"),
			writeEvents(),
		}},
		{"cert-manager-certificatesigningrequests", []rbacv1.PolicyRule{
			allow("get", certificates, "certificatesigningrequests"),
			allow("update", certificates, "certificatesigningrequests/status"),
			allowOn("sign", certificates, "signers", IssuerSigners()...),
			allow("create", authorization, "subjectaccessreviews"),
			allow(read, core, "secrets"),
			writeEvents(),
		}},
		{"cert-manager-certificaterequests-approver", []rbacv1.PolicyRule{
			allow("update", certManager, "certificaterequests/status"),
			allowOn("approve", certManager, "signers", IssuerSigners()...),
			writeEvents(),
		}},
	}
}

// objectControllers keep house: they look after objects of any kind.
func objectControllers() []controller {
	return []controller{
		{"clusterrole-aggregation-controller", []rbacv1.PolicyRule{
			// It writes rules that it does not hold itself.
			allow("escalate get list patch update watch", rbac, "clusterroles"),
		}},
		{"namespace-controller", []rbacv1.PolicyRule{
			// Whatever there is in a namespace goes with it.
			allow("delete deletecollection get list", "*", "*"),
			allow(read, core, "namespaces"),
			allow("update", core, "namespaces/finalize", "namespaces/status"),
		}},
		{"service-account-controller", []rbacv1.PolicyRule{
			allow("create", core, "serviceaccounts"),
		}},
		// Secrets for tokens are in any namespace and have any name.
		{"tokens-controller", []rbacv1.PolicyRule{
			allow("delete update "+read, core, "secrets"),
			allow("get", core, "serviceaccounts"),
			writeEvents(),
		}},
		{"generic-garbage-collector", []rbacv1.PolicyRule{
			// Whatever there is can own and be owned.
			allow("delete patch update "+read, "*", "*"),
		}},
		{"validatingadmissionpolicy-status-controller", []rbacv1.PolicyRule{
			allow(read, admissionregistration, "validatingadmissionpolicies"),
			allow("get patch update", admissionregistration, "validatingadmissionpolicies/status"),
		}},
		// It says of nodes that they are silent. It need not taint them, nor touch
		// their pods.
		{"node-controller", []rbacv1.PolicyRule{
			allow(read, coordination, "leases"),
			allow("patch", core, "nodes/status"),
			writeEvents(),
		}},
		{"definition-installer", []rbacv1.PolicyRule{
			allow(read, apiextensions, "customresourcedefinitions"),
			allowOn("create patch", apiextensions, "customresourcedefinitions", definitions()...),
		}},
	}
}

// peerControllers are parts of Kubernetes that can run as clients of this
// server.
func peerControllers() []controller {
	return []controller{
		// The approver, signer and cleaner of kube-controller-manager.
		{"certificate-controller", []rbacv1.PolicyRule{
			allow("delete "+read, certificates, "certificatesigningrequests"),
			allow("update", certificates, "certificatesigningrequests/approval", "certificatesigningrequests/status"),
			allowOn("approve", certificates, "signers", certificatesv1.KubeAPIServerClientKubeletSignerName),
			allowOn("sign", certificates, "signers",
				certificatesv1.KubeAPIServerClientSignerName,
				certificatesv1.KubeAPIServerClientKubeletSignerName,
				certificatesv1.KubeletServingSignerName,
				legacyUnknown),
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		}},
		// Its publisher of the roots of API servers.
		{"kube-apiserver-serving-clustertrustbundle-publisher", []rbacv1.PolicyRule{
			allow("create delete list update watch", certificates, "clustertrustbundles"),
			allowOn("attest", certificates, "signers", apiServerServing),
			writeEvents(),
		}},
	}
}
