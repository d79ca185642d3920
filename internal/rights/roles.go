package rights

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Labels that add a role's rules to another role.
const (
	toAdmin         = "rbac.authorization.k8s.io/aggregate-to-admin"
	toEdit          = "rbac.authorization.k8s.io/aggregate-to-edit"
	toView          = "rbac.authorization.k8s.io/aggregate-to-view"
	toClusterReader = "rbac.authorization.k8s.io/aggregate-to-cluster-reader" // of OpenShift
)

// Role is a ClusterRole for users.
type Role struct {
	Name string
	// Doc describes in half a line what its users may do. Only roles for certificates
	// have it.
	Doc string
	// Joins is the label that adds the rules to another role.
	Joins string
	// Gathers is the label of the roles that this one aggregates.
	Gathers string
	Rules   []rbacv1.PolicyRule
}

// Roles returns the roles for people and external programs. No user has one by default,
// except through Bindings.
func Roles() []Role {
	return slices.Concat(userRoles(), certificateRoles(), peopleRoles(), PolicyRoles(), ACMERoles(), InventoryRoles(), CertManagerRoles(), BundleRoles(), TrustRoles())
}

// userRoles returns the roles that are not about certificates.
func userRoles() []Role {
	everything := []rbacv1.PolicyRule{
		allow("*", "*", "*"),
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}
	return []Role{
		{Name: "cluster-admin", Rules: everything},
		{Name: "system:discovery", Rules: []rbacv1.PolicyRule{
			allowURLs("/livez", "/readyz", "/healthz", "/version", "/version/",
				"/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"),
		}},
		{Name: "system:public-info-viewer", Rules: []rbacv1.PolicyRule{
			allowURLs("/livez", "/readyz", "/healthz", "/version", "/version/"),
		}},
		{Name: "system:basic-user", Rules: []rbacv1.PolicyRule{
			allow("create", authorization, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			allow("create", authentication, "selfsubjectreviews"),
		}},
		{Name: "system:monitoring", Rules: []rbacv1.PolicyRule{
			allowURLs("/metrics", "/metrics/slis", "/livez", "/readyz", "/healthz", "/livez/*", "/readyz/*", "/healthz/*",
				"/statusz", "/flagz"),
		}},
		{Name: "system:auth-delegator", Rules: []rbacv1.PolicyRule{
			allow("create", authentication, "tokenreviews"),
			allow("create", authorization, "subjectaccessreviews"),
		}},

		// A user who is bound to one of these in a namespace administers, edits
		// or views it.
		{Name: "admin", Gathers: toAdmin},
		{Name: "edit", Gathers: toEdit, Joins: toAdmin},
		{Name: "view", Gathers: toView, Joins: toEdit},
		{Name: "system:aggregate-to-admin", Joins: toAdmin, Rules: []rbacv1.PolicyRule{
			allow("create", authorization, "localsubjectaccessreviews"),
			allow(read+" "+write, rbac, "roles", "rolebindings"),
		}},
		{Name: "system:aggregate-to-edit", Joins: toEdit, Rules: []rbacv1.PolicyRule{
			allow(read, core, "secrets"),
			allow(write, core, "configmaps", "events", "pods", "secrets", "serviceaccounts", "services"),
			allow(write, events, "events"),
			allow("create", core, "pods/eviction", "serviceaccounts/token"),
			allow("impersonate", core, "serviceaccounts"),
			// A user who may act as these accounts and read these objects may
			// also let a host do so.
			allow("host", core, "configmaps", "secrets", "serviceaccounts"),
			allow(read+" "+write, coordination, "leases"),
			// Certificates of its pods can be revoked.
			allow(TaskRevoke, certificates, PodRequests.Resource),
		}},
		{Name: "system:aggregate-to-view", Joins: toView, Rules: []rbacv1.PolicyRule{
			allow(read, core, "configmaps", "events", "namespaces", "namespaces/status", "pods", "pods/log", "pods/status", "serviceaccounts", "services", "services/status"),
			// The same Events in their newer group.
			allow(read, events, "events"),
		}},

		{Name: "system:node", Rules: NodeRules()},
		{Name: "system:service-account-issuer-discovery", Rules: []rbacv1.PolicyRule{
			allowURLs("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"),
		}},
		{Name: "system:cluster-trust-bundle-discovery", Doc: "reads trust bundles; all service accounts have it", Rules: []rbacv1.PolicyRule{
			allow(read, certificates, "clustertrustbundles"),
		}},
	}
}

// SystemRole is a Role in a namespace of the system.
type SystemRole struct {
	Name  string
	Rules []rbacv1.PolicyRule
	// Binding is the name of the RoleBinding that grants it to Users and Groups.
	Binding       string
	Users, Groups []string
}

// SystemRoles returns the Roles in kube-system for parts of Kubernetes and for other
// programs.
func SystemRoles() []SystemRole {
	return []SystemRole{{
		Name:    "extension-apiserver-authentication-reader",
		Rules:   []rbacv1.PolicyRule{allowOn(read, core, "configmaps", extensionAuthentication)},
		Binding: "system::extension-apiserver-authentication-reader",
		Users:   []string{"system:kube-controller-manager", "system:kube-scheduler"},
	}, ApprovalKeysReader()}
}

// ApprovalKeysReader is the role, in the namespace of the controllers' accounts, that
// lets all users read the public keys that verify approvals.
func ApprovalKeysReader() SystemRole {
	name := ApprovalKeys + "-reader"
	return SystemRole{
		Name: name, Rules: []rbacv1.PolicyRule{allowOn("get", core, "configmaps", ApprovalKeys)},
		Binding: name, Groups: []string{"system:authenticated"},
	}
}

// NodeRules returns the rights of a kubelet. The role is not bound to a user or group:
// rules cannot express which node may access which object.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow("create", authentication, "tokenreviews"),
		allow("create", authorization, "localsubjectaccessreviews", "subjectaccessreviews"),
		allow("create "+read, core, "nodes"),
		allow("patch update", core, "nodes", "nodes/status"),
		allow("create patch update", core, "events"),
		allow(read, core, "configmaps", "pods", "secrets", "services"),
		allow("create delete", core, "pods"),
		allow("patch update", core, "pods/status"),
		allow("create", core, "pods/eviction", "serviceaccounts/token"),
		allow("get", core, "serviceaccounts"),
		allow("create delete get patch update", coordination, "leases"),
		allow("create "+read, certificates, "certificatesigningrequests", "podcertificaterequests"),
		allow(read, certificates, "clustertrustbundles"),
		allow(read, inventoryGroup, revocationLists...),
	}
}

// Binding grants the role of the same name to groups.
type Binding struct {
	Role   string
	Groups []string
}

// Bindings returns which groups have roles by default.
func Bindings() []Binding {
	return []Binding{
		{"cluster-admin", []string{"system:masters"}},
		{"system:discovery", []string{"system:authenticated"}},
		{"system:basic-user", []string{"system:authenticated"}},
		{"system:public-info-viewer", []string{"system:authenticated", "system:unauthenticated"}},
		{"system:monitoring", []string{"system:monitoring"}},
		{"system:service-account-issuer-discovery", []string{"system:serviceaccounts"}},
		{"system:cluster-trust-bundle-discovery", []string{"system:serviceaccounts"}},
		{"certplane-revocation-lists", []string{"system:authenticated"}},
		// It is empty, and kept so that an administrator finds where to add
		// nodes.
		{"system:node", nil},
	}
}

// certificateRoles returns the roles for users who request certificates and
// users who approve them. An approver also needs another role, to read requests
// and to update their approval.
func certificateRoles() []Role {
	roles := []Role{
		{Name: "system:node-bootstrapper", Doc: "creates CertificateSigningRequests: for new nodes", Rules: []rbacv1.PolicyRule{
			allow("create "+read, certificates, "certificatesigningrequests"),
		}},
		// The automatic approver checks whether the requester may create these.
		// The two subresources have no other purpose.
		{Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient", Doc: "may have requests for any node's certificate approved without a person", Rules: []rbacv1.PolicyRule{
			allow("create", certificates, "certificatesigningrequests/nodeclient"),
		}},
		{Name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", Doc: "may have requests for its own certificate, as a node, approved without a person", Rules: []rbacv1.PolicyRule{
			allow("create", certificates, "certificatesigningrequests/selfnodeclient"),
		}},
	}
	for _, approver := range []struct{ name, signer string }{
		{"legacy-unknown-approver", legacyUnknown},
		{"kubelet-serving-approver", certificatesv1.KubeletServingSignerName},
		{"kube-apiserver-client-approver", certificatesv1.KubeAPIServerClientSignerName},
		{"kube-apiserver-client-kubelet-approver", certificatesv1.KubeAPIServerClientKubeletSignerName},
	} {
		roles = append(roles, Role{
			Name: "system:certificates.k8s.io:" + approver.name, Doc: "half of approving for `" + approver.signer + "`: the right to the signer",
			Rules: []rbacv1.PolicyRule{allowOn("approve", certificates, "signers", approver.signer)},
		})
	}
	return roles
}

// peopleRoles returns the parts of tasks that are the same for all signers. The right to
// a signer is a separate role, such as "certplane grant" creates.
func peopleRoles() []Role {
	approve, approveIssuers, revoke := taskOf(TaskApprove, SigningRequests), taskOf(TaskApprove, IssuerRequests), taskOf(TaskRevoke, Revocations)
	return []Role{
		{
			Name: "certplane-view", Doc: "reads requests of all kinds of Kubernetes, Signers and trust bundles",
			Rules: []rbacv1.PolicyRule{
				allow(read, certificates, SigningRequests.Resource, PodRequests.Resource, TrustBundles.Resource),
				readSigners,
			},
		},
		{
			Name: "certplane-requester", Doc: "creates CertificateSigningRequests, for any signer",
			Rules: taskOf(TaskRequest, SigningRequests).OnObjects(),
		},
		{
			Name: "certplane-approver", Doc: "half of approving CertificateSigningRequests: without the right to a signer",
			Rules: slices.Concat(approve.OnObjects(), approve.Also),
		},
		{
			Name: "certplane-certificaterequest-approver", Doc: "half of approving CertificateRequests, in a namespace or in all: without the right to an issuer",
			Rules: slices.Concat(approveIssuers.OnObjects(), approveIssuers.Beside),
		},
		{
			Name: "certplane-revoker", Doc: "half of revoking certificates: without the right to a signer; alone, it suffices to revoke certificates that one has requested oneself",
			Rules: slices.Concat(revoke.OnObjects(), revoke.Also),
		},
		{
			Name: "certplane-auditor", Doc: "reads all objects about certificates and rights: issued certificates, decisions, requests of all kinds, policies, Signers, issuers, trust bundles, the ACME server, roles and their bindings; reads no Secrets",
			Rules: []rbacv1.PolicyRule{
				readInventory,
				allow(read, certificates, SigningRequests.Resource, PodRequests.Resource, TrustBundles.Resource),
				allow(read, certplane, slices.Concat(policyKinds, []string{"signers", Revocations.Resource, acmeAccounts, acmeEndpoints, acmeExternalKeys, acmeOrders, "trustbundles"})...),
				allow(read, approverPolicy, "certificaterequestpolicies"),
				allow(read, certManager, "certificaterequests", "certificates", "clusterissuers", "issuers"),
				allow(read, acme, "challenges", "orders"),
				allow(read, rbac, "clusterrolebindings", "clusterroles", "rolebindings", "roles"),
				readEvents, askForOthers,
			},
		},
	}
}

var policyKinds = []string{"certificatepolicies", "certificatepolicyexceptions"}

// PolicyRoles returns the rights of readers and authors of policies. Writing policies
// amounts to approving, so no other role includes it.
func PolicyRoles() []Role {
	return []Role{
		{Name: "certplane-policy-view", Doc: "reads CertificatePolicies and exceptions; part of `view`", Joins: toView, Rules: []rbacv1.PolicyRule{
			allow(read, certplane, policyKinds...),
		}},
		{Name: "certplane-policy-edit", Doc: "writes CertificatePolicies and exceptions: with the right to a signer this is the right to approve and to remove guardrails", Rules: []rbacv1.PolicyRule{
			allow(read+" "+write, certplane, policyKinds...),
		}},
	}
}

// The records of issued certificates and of decisions.
const inventoryGroup, issuedCertificates, certificateDecisions, certificatePacks = "inventory.certplane.dev", "issuedcertificates", "certificatedecisions", "certificatepacks"

var readInventory = allow(read, inventoryGroup, issuedCertificates, certificateDecisions)

// revocationLists are the lists, which reveal only what verifiers of certificates must know.
var revocationLists = []string{"revocationlists", "revocationlists/content"}

// InventoryRoles returns the rights of users of the inventory, which only "certplane
// serve" provides.
func InventoryRoles() []Role {
	return []Role{
		RecordsViewer(),
		{Name: "certplane-revocation-lists", Doc: "reads certificate revocation lists; all authenticated users have it", Rules: []rbacv1.PolicyRule{
			allow(read, inventoryGroup, revocationLists...),
		}},
		{Name: "certplane-inventory-admin", Doc: "reads the records of all issued certificates and decisions, and deletes them to make room in the store", Rules: []rbacv1.PolicyRule{
			allow(read+" delete deletecollection", inventoryGroup, issuedCertificates, certificateDecisions),
		}},
	}
}

// RecordsViewer returns the role that reads the inventory, here and in clusters.
func RecordsViewer() Role {
	return Role{
		Name: "certplane-inventory-view", Doc: "reads the records of all issued certificates and decisions, of all namespaces",
		Rules: []rbacv1.PolicyRule{readInventory, allow(read, records, certificatePacks)},
	}
}

// CertManagerRoles returns the rights of users of cert-manager.io, by role. None of the
// roles lets a user approve, which requires a right to signers and to
// certificaterequests/status, or write ClusterIssuers.
func CertManagerRoles() []Role {
	return []Role{
		{Name: "cert-manager-view", Doc: "reads objects of cert-manager.io in a namespace; part of `view`", Joins: toView, Rules: []rbacv1.PolicyRule{
			allow(read, certManager, "certificaterequests", "certificates", "issuers"),
			allow(read, acme, "challenges", "orders"),
		}},
		{Name: "cert-manager-edit", Doc: "requests from Issuers and writes them, in a namespace; part of `edit`", Joins: toEdit, Rules: []rbacv1.PolicyRule{
			allow(write, certManager, "certificaterequests", "certificates", "issuers"),
			// Certificates that were requested in the namespace can be revoked there.
			allow(TaskRevoke, certManager, "certificaterequests"),
			// A certificate is renewed by setting a condition.
			allow("update", certManager, "certificates/status"),
			// Challenges and orders are processed with the credentials of their
			// issuer, so only controllers decide what is in them. Users may
			// unblock what is stuck: the content of a challenge never changes.
			allow("delete deletecollection patch update", acme, "challenges"),
			allow("delete deletecollection", acme, "orders"),
		}},
		{Name: "cert-manager-cluster-view", Doc: "reads ClusterIssuers", Joins: toClusterReader, Rules: []rbacv1.PolicyRule{
			allow(read, certManager, "clusterissuers"),
		}},
		// For approvers of requests to all issuers of this API.
		{Name: "cert-manager-controller-approve:cert-manager-io", Doc: "half of approving for all Issuers and ClusterIssuers: the right to the issuers", Rules: []rbacv1.PolicyRule{
			allowOn("approve", certManager, "signers", issuerSigners...),
		}},
	}
}
