package rights

import rbacv1 "k8s.io/api/rbac/v1"

// ACMEServerAccount answers the clients of the ACME server. Unknown clients can reach its
// process: it approves and signs nothing, and gets only the tokens and Secrets that
// owners of namespaces permit (ACMEConsent).
const ACMEServerAccount = "acme-server"

// ACMEPeers is the name of the Lease of the processes of the ACME server.
const ACMEPeers = "certplane-acme-peers"

// Verbs on acmeendpoints, by the name of the endpoint, that the API itself does not use.
const (
	// ACMEUse is the right of a ServiceAccount to have accounts and orders.
	ACMEUse = "use"
	// ACMEAutoApprove is the right of a ServiceAccount to requests without a person.
	ACMEAutoApprove = "autoapprove"
	// ACMEApprove is the right of a person to approve and revoke accounts.
	ACMEApprove = "approve"
	// ACMEPreauthorize is the right to exempt names from challenges.
	ACMEPreauthorize = "preauthorize"
	// ACMEServe is the right to write accounts, their keys and orders.
	ACMEServe = "serve"
)

// ACMEReference is the verb on signers, of certificates.k8s.io or cert-manager.io, that
// permits naming them in an endpoint.
const ACMEReference = "reference"

// ACMECertificate is the name of the Secret with the certificate of the ACME server, if
// it is not in files.
const ACMECertificate = "certplane-acme-server"

// ACMETrust is the signer name under which the roots of endpoints are published.
const ACMETrust = "certplane.dev/acme"

// Kinds of the ACME server.
const (
	acmeEndpoints    = "acmeendpoints"
	acmeAccounts     = "acmeaccounts"
	acmeAccountKeys  = "acmeaccountkeys"
	acmeExternalKeys = "acmeexternalkeys"
	acmeOrders       = "acmeorders"
)

// Rules of several accounts of the ACME server.
var (
	serveACME = allow(ACMEServe, certplane, acmeEndpoints)
	readACME  = allow(read, certplane, acmeAccounts, acmeEndpoints, acmeExternalKeys, acmeOrders)
)

// ACMEServerRules returns the rights of ACMEServerAccount in the whole cluster.
func ACMEServerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		readACME,
		serveACME,
		readSigners, // former CAs cause early renewals
		allow("create delete get list watch update", certplane, acmeAccountKeys),
		allow("create", certplane, acmeAccounts, acmeOrders, "revocations"),
		allow("patch update", certplane, acmeAccounts+"/status", acmeExternalKeys+"/status", acmeOrders+"/status"),
		allow("update", certplane, acmeEndpoints+"/status"), // records new accounts
		// Checks whether issuers forward requests unchanged.
		allow("get", certManager, "clusterissuers", "issuers"),
		// Checks whether ServiceAccounts exist, may use an endpoint, and permit the
		// server to act as them.
		allow("get", core, "serviceaccounts"),
		allow("create", authorization, "subjectaccessreviews"),
		writeEvents(),
	}
}

// ACMEServerNamespaceRules returns the rights of ACMEServerAccount in its own namespace:
// to the Lease with which the processes of the server find each other.
func ACMEServerNamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow("create", coordination, "leases"), // RBAC cannot limit create to a name
		allowOn("patch "+read, coordination, "leases", ACMEPeers),
	}
}

// The controllers of the ACME server. Each has its own identity: requesting, approving
// and signing are separate.
var (
	// ServeACMEOrders creates requests with tokens of the ServiceAccounts that owners of
	// namespaces name (ACMEConsent). It has no other right to tokens.
	ServeACMEOrders = Controller{
		Name: "acme-orders", Account: "acme-orders", Where: Everywhere, Groups: []string{certplane},
		Doc: "creates the requests of ACME orders as their ServiceAccounts, and delivers certificates",
		Rules: []rbacv1.PolicyRule{
			serveACME,
			allow("get", certplane, acmeAccounts, acmeEndpoints, acmeExternalKeys, acmeOrders),
			allow("patch update", certplane, acmeOrders+"/status"),
			// Finds created requests whose answer was lost.
			allow("get", certificates, "certificatesigningrequests"),
			allow("get", certManager, "certificaterequests"),
			allow("list", certificates, "clustertrustbundles"), // for chains whose only CA is the root
			allow("create", authorization, "subjectaccessreviews"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readACME, readCSRs, readRequests},
	}
	// ValidateACME is the only controller that connects to addresses chosen by clients.
	// It writes only the status of orders.
	ValidateACME = Controller{
		Name: "acme-validator", Account: "acme-validator", Where: Everywhere, Groups: []string{certplane},
		Doc: "tries the challenges of ACME orders",
		Rules: []rbacv1.PolicyRule{
			serveACME,
			allow("get", certplane, acmeOrders),
			allow("patch update", certplane, acmeOrders+"/status"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readACME, allow(read, certplane, acmeAccountKeys)},
	}
	// ApproveACME has a right to all signers and issuers: endpoints can name any.
	ApproveACME = Controller{
		Name: "acme-approver", Account: "acme-approver", Where: Everywhere, Groups: []string{certplane},
		Doc: "approves the requests of ACME orders whose ServiceAccounts need no person",
		Rules: []rbacv1.PolicyRule{
			allow("get", certplane, acmeAccounts, acmeEndpoints, acmeExternalKeys, acmeOrders),
			allow("get", certificates, "certificatesigningrequests"),
			allow("get", certManager, "certificaterequests"),
			allow("update", certificates, "certificatesigningrequests/approval"),
			allow("update", certManager, "certificaterequests/status"),
			allow("approve", certificates, "signers"),
			allowOn("approve", certManager, "signers", issuerSigners...),
			allow("create", authorization, "subjectaccessreviews"),
			allow("get", core, "serviceaccounts"), // checks whether the requester still exists
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readACME, readCSRs, readRequests},
	}
	CleanACME = Controller{
		Name: "acme-cleaner", Account: "acme-cleaner", Where: Everywhere, Groups: []string{certplane},
		Doc: "deletes expired orders, accounts and keys of the ACME server",
		Rules: []rbacv1.PolicyRule{
			serveACME,
			allow("delete get", certplane, acmeAccountKeys, acmeAccounts, acmeOrders),
			allow("get", certplane, acmeExternalKeys),
			allow("update", certplane, acmeAccountKeys, acmeOrders), // retires keys, and removes the author of an order
			allow("patch update", certplane, acmeAccounts+"/status", acmeOrders+"/status"),
			// Deletes requests of deleted orders. Requests to issuers are deleted with
			// their owners.
			allow("delete", certificates, "certificatesigningrequests"),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readACME, allow(read, certplane, acmeAccountKeys), readCSRs},
	}
	// KeepACMEEndpoints creates and reads the Secrets of external keys, where owners of
	// namespaces permit it (ACMEConsent).
	KeepACMEEndpoints = Controller{
		Name: "acme-endpoints", Account: "acme-endpoints", Where: Everywhere, Groups: []string{certplane},
		Doc: "sets the status of endpoints and external keys of the ACME server, publishes its roots, and creates the Secrets of keys",
		Rules: []rbacv1.PolicyRule{
			allow("get", certplane, acmeEndpoints, acmeExternalKeys),
			allow("patch update", certplane, acmeEndpoints+"/status", acmeExternalKeys+"/status"),
			allow("create", authorization, "subjectaccessreviews"),
			// The roots of the server and of the signers of endpoints.
			allow("create get list update watch", certificates, "clustertrustbundles"),
			allowOn("attest", certificates, "signers", ACMETrust),
			writeEvents(),
		},
		Reads: []rbacv1.PolicyRule{readACME, readSigners},
	}
	// KeepACMECertificate requests the certificate with which the server authenticates to
	// clients, like any other requester: it approves and signs nothing.
	KeepACMECertificate = Controller{
		Name: "acme-certificate", Account: "acme-certificate", Where: Everywhere,
		Doc: "keeps the ACME server's certificate in a Secret, if a signer, an issuer or the server's own CA issues it",
		Rules: []rbacv1.PolicyRule{
			allow("create get", certificates, "certificatesigningrequests"),
			allow("list", certificates, "clustertrustbundles"), // for the roots of the signer
		},
		InNamespace: []rbacv1.PolicyRule{
			allow("create", core, "secrets"), // RBAC cannot limit create to a name
			allowOn("update "+read, core, "secrets", ACMECertificate),
			allow("create delete get", certManager, "certificaterequests"),
		},
	}
)

// ACMEConsent returns the rights with which the owner of a namespace lets the ACME server
// act as a ServiceAccount there and read the Secrets of external keys, by the account
// that needs them. Roles in that namespace grant them, never cluster-wide roles.
func ACMEConsent(serviceAccount string, secrets ...string) map[string][]rbacv1.PolicyRule {
	consent := map[string][]rbacv1.PolicyRule{
		ServeACMEOrders.Account: {allowOn("create", core, "serviceaccounts/token", serviceAccount)},
	}
	if len(secrets) > 0 {
		get := allowOn("get", core, "secrets", secrets...)
		consent[ACMEServerAccount] = []rbacv1.PolicyRule{get}
		// RBAC cannot limit create to a name.
		consent[KeepACMEEndpoints.Account] = []rbacv1.PolicyRule{get, allow("create", core, "secrets")}
	}
	return consent
}

// ACMERequests are the kinds of requests that the server creates for the orders of an
// endpoint.
type ACMERequests struct{ OfSigners, OfIssuers bool }

// ACMERequester returns the rights that a ServiceAccount needs for orders of an
// endpoint, in the whole cluster and in its namespace.
func ACMERequester(endpoint string, become ACMERequests) (ofCluster, ofNamespace []rbacv1.PolicyRule) {
	ofCluster = []rbacv1.PolicyRule{allowOn(ACMEUse, certplane, acmeEndpoints, endpoint)}
	if become.OfSigners {
		ofCluster = append(ofCluster, allow("create", certificates, "certificatesigningrequests"))
	}
	if become.OfIssuers {
		ofNamespace = append(ofNamespace, allow("create", certManager, "certificaterequests"))
	}
	return ofCluster, ofNamespace
}

// ACMENoPerson returns the right of a ServiceAccount to requests without a person.
func ACMENoPerson(endpoint string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allowOn(ACMEAutoApprove, certplane, acmeEndpoints, endpoint)}
}

// ACMERoles returns the rights of users of the ACME server. None lets a user write
// orders, accounts or their keys: this requires the verb serve.
func ACMERoles() []Role {
	return []Role{
		{Name: "certplane-acme-view", Doc: "reads orders and external keys of the ACME server in a namespace; part of `view`", Joins: toView, Rules: []rbacv1.PolicyRule{
			allow(read, certplane, acmeExternalKeys, acmeOrders),
		}},
		{Name: "certplane-acme-edit", Doc: "writes external keys of the ACME server and cancels orders, in a namespace; part of `edit`", Joins: toEdit, Rules: []rbacv1.PolicyRule{
			allow(write, certplane, acmeExternalKeys),
			allow("delete deletecollection", certplane, acmeOrders),
		}},
		{Name: "certplane-acme-cluster-view", Doc: "reads endpoints, accounts and account keys of the ACME server", Rules: []rbacv1.PolicyRule{
			allow(read, certplane, acmeAccountKeys, acmeAccounts, acmeEndpoints),
		}},
		{Name: "certplane-acme-admin", Doc: "writes endpoints of the ACME server, approves, revokes and deletes accounts, and lets external keys replace challenges: naming a signer in an endpoint also requires `reference` on it", Rules: []rbacv1.PolicyRule{
			allow(read+" "+write, certplane, acmeEndpoints),
			allow(ACMEApprove+" "+ACMEPreauthorize+" "+ACMEUse, certplane, acmeEndpoints),
			allow(read+" delete deletecollection patch update", certplane, acmeAccounts),
			allow(read+" delete deletecollection", certplane, acmeAccountKeys),
		}},
	}
}
