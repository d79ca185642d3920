package rights

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// legacyUnknown is the signer of requests from before signers had names. New
// requests cannot name it.
const legacyUnknown = "kubernetes.io/legacy-unknown"

// apiServerServing is the signer of the API server's own certificate. It accepts no
// requests: it only has roots.
const apiServerServing = "kubernetes.io/kube-apiserver-serving"

// Rules of the shared cache for several controllers.
var (
	readCSRs       = allow(read, certificates, "certificatesigningrequests")
	readNamespaces = allow(read, core, "namespaces")
	readNodes      = allow(read, core, "nodes")
	readSigners    = allow(read, certplane, "signers")
	readEvents     = allow(read, events, "events")
	// askForOthers is the right to check the rights of other users.
	askForOthers = allow("create", authorization, "subjectaccessreviews")
)

// signBuiltIn is the right to sign for the built-in signers.
var signBuiltIn = allowOn("sign", certificates, "signers",
	certificatesv1.KubeAPIServerClientSignerName,
	certificatesv1.KubeAPIServerClientKubeletSignerName,
	certificatesv1.KubeletServingSignerName,
	legacyUnknown)

// approveKubelets is the right to approve the requests of kubelets.
var approveKubelets = allowOn("approve", certificates, "signers", certificatesv1.KubeAPIServerClientKubeletSignerName)

// The controllers of certificates.k8s.io and of Signers.
var (
	Approve = Controller{
		Name: "approve", Account: "csr-approver", Where: Everywhere,
		Doc: "approves the requests of kubelets that need no person",
		Rules: []rbacv1.PolicyRule{
			allow(read, certificates, "certificatesigningrequests"),
			allow("update", certificates, "certificatesigningrequests/approval"),
			approveKubelets,
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCSRs},
	}
	// ApproveByPolicy has a right to all signers: policies can match any.
	ApproveByPolicy = Controller{
		Name: "approve", Account: "policy-approver", Where: Everywhere,
		Doc: "approves and denies CertificateSigningRequests by CertificatePolicies",
		Rules: []rbacv1.PolicyRule{
			allow("update", certificates, "certificatesigningrequests/approval"),
			allow("approve", certificates, "signers"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCSRs},
	}
	Sign = Controller{
		Name: "sign", Account: "csr-signer", Where: Everywhere,
		Doc: "signs for the built-in signers that have a CA",
		Rules: []rbacv1.PolicyRule{
			allow(read, certificates, "certificatesigningrequests"),
			allow("patch update", certificates, "certificatesigningrequests/status"),
			signBuiltIn,
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCSRs},
	}
	// SignByWebhook signs for the signers that the configuration names: the
	// DelegatedRule.
	SignByWebhook = Controller{
		Name: "sign", Account: "csr-webhook-signer", Where: Everywhere,
		Doc: "lets HTTPS endpoints sign for the signers that the configuration names",
		Rules: []rbacv1.PolicyRule{
			allow(read, certificates, "certificatesigningrequests"),
			allow("patch update", certificates, "certificatesigningrequests/status"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCSRs},
	}
	// FollowSigners keeps the CAs of declared signers, in Secrets in the
	// namespace of the accounts only.
	FollowSigners = Controller{
		Name: "signers", Account: "signer-manager", Where: Everywhere,
		Doc:    "follows Signers: loads, creates and replaces their CAs",
		Groups: []string{certplane},
		Rules: []rbacv1.PolicyRule{
			allow("get", certplane, "signers"),
			allow("patch update", certplane, "signers/status"),
			allow("list", certificates, "clustertrustbundles"),
			writeEvents(),
		},
		InNamespace: []rbacv1.PolicyRule{allow("create update "+read, core, "secrets")},
		Reads:       []rbacv1.PolicyRule{readSigners},
	}
	// SignDeclared has a right to all signers: they can be declared at any
	// time, under any name.
	SignDeclared = Controller{
		Name: "signers", Account: "declared-signer", Where: Everywhere,
		Doc: "signs CertificateSigningRequests for Signers",
		Rules: []rbacv1.PolicyRule{
			allow("get", certificates, "certificatesigningrequests", "podcertificaterequests"),
			allow("patch update", certificates, "certificatesigningrequests/status", "podcertificaterequests/status"),
			allow("sign", certificates, "signers"),
			allow("get", core, "namespaces", "nodes", "pods", "serviceaccounts"),
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{
			readCSRs,
			allow(read, certificates, "podcertificaterequests"),
			readNodes,
			allow(read, core, "pods", "serviceaccounts", "services"),
			readNamespaces,
		},
	}
	SignPods = Controller{
		Name: "podsign", Account: SignDeclared.Account, Where: Everywhere,
		Doc: "signs PodCertificateRequests for Signers, where the API has such requests; needs signers",
	}
	InstallSigners = Controller{
		Name: "declare", Account: "signer-installer", Where: Everywhere,
		Doc: "installs the Signers that podSigners names",
		Rules: []rbacv1.PolicyRule{
			allowOn("create get patch", certplane, "signers", "spiffe", "service-dns", "kube-apiserver-client-pod", "acme-hosts", "agent-hosts", "server"),
			allow("list watch", certplane, "signers"),
			writeEvents(),
		},
	}
	// InstallPolicies holds the right to approve for the policy kubelet-serving: the
	// author of a policy must hold the rights that it grants.
	InstallPolicies = Controller{
		Name: "declare", Account: "policy-installer", Where: Everywhere,
		Doc:    "installs the CertificatePolicies that policy.install names",
		Groups: []string{certplane},
		Rules: []rbacv1.PolicyRule{
			allowOn("create get patch", certplane, "certificatepolicies", "kubelet-serving", "no-system-identities"),
			allow("list watch", certplane, "certificatepolicies"),
			allowOn("approve", certificates, "signers", certificatesv1.KubeletServingSignerName),
			writeEvents(),
		},
	}
	// PolicyStatus keeps the status of CertificatePolicies and of their exceptions.
	PolicyStatus = Controller{
		Name: "policies", Account: "policy-manager", Where: Everywhere,
		Doc:    "sets the status of CertificatePolicies: whether they are enforced, and their decisions",
		Groups: []string{certplane},
		Rules: []rbacv1.PolicyRule{
			allow("get", certplane, "certificatepolicies"),
			allow("delete get", certplane, "certificatepolicyexceptions"),
			allow("patch update", certplane, "certificatepolicies/status", "certificatepolicyexceptions/status"),
			writeEvents(),
		},
	}
	// RequestPolicyStatus keeps the status of CertificateRequestPolicies, where
	// they are enforced.
	RequestPolicyStatus = Controller{
		Name: "policies", Account: "request-policy-manager", Where: Everywhere,
		Doc:    "sets the status of CertificateRequestPolicies, if policy.certificateRequestPolicies is enabled",
		Groups: []string{approverPolicy},
		Rules: []rbacv1.PolicyRule{
			allow("get", approverPolicy, "certificaterequestpolicies"),
			allow("patch", approverPolicy, "certificaterequestpolicies/status"),
			writeEvents(),
		},
	}
	// Record is the only account that writes records: signers have no right to them.
	Record = Controller{
		Name: "record", Account: "certificate-recorder", Where: InClusters, Groups: []string{records},
		Doc:         "records issued certificates in CertificatePacks",
		Rules:       []rbacv1.PolicyRule{writeEvents()},
		InNamespace: []rbacv1.PolicyRule{allow("create delete update "+read, records, certificatePacks)},
		Reads: []rbacv1.PolicyRule{
			readCSRs, allow(read, certManager, "certificaterequests"), allow(read, certificates, "podcertificaterequests"),
		},
	}
	Clean = Controller{
		Name: "clean", Account: "csr-cleaner", Where: Everywhere,
		Doc: "deletes old CertificateSigningRequests",
		Rules: []rbacv1.PolicyRule{
			allow("delete", certificates, "certificatesigningrequests"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readCSRs},
	}
	// CleanPods uses the account's name in Kubernetes.
	CleanPods = Controller{
		Name: "clean", Account: "podcertificaterequestcleaner", Where: Everywhere,
		Doc: "deletes old PodCertificateRequests",
		Rules: []rbacv1.PolicyRule{
			allow("delete "+read, certificates, "podcertificaterequests"),
			writeEvents(),
		},
	}
	Publish = Controller{
		Name: "publish", Account: "root-ca-cert-publisher", Where: ByName,
		Doc: "keeps kube-root-ca.crt in every namespace",
		Rules: []rbacv1.PolicyRule{
			allow("create update", core, "configmaps"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readNamespaces, allowOn(read, core, "configmaps", "kube-root-ca.crt")},
	}
	// Trust attests for all signers: they can be declared at any time, under
	// any name.
	Trust = Controller{
		Name: "trust", Account: "trust-bundle-publisher", Where: Everywhere,
		Doc: "publishes the signers' roots, where the API has trust bundles",
		Rules: []rbacv1.PolicyRule{
			allow("create delete list update watch", certificates, "clustertrustbundles"),
			allow("attest", certificates, "signers"),
			writeEvents(),
		},
	}
)
