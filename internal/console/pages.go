package console

import "net/http"

// page is a page of the navigation.
type page struct {
	Path, Title string
	serve       func(*user, http.ResponseWriter, *http.Request)
}

// allPages returns the pages of the navigation, the first page first.
func allPages() []page {
	lists := func(path, title, lead string, all ...listed) page {
		return page{path, title, serveLists(title, lead, all...)}
	}
	return []page{
		{"requests", "Requests", (*user).serveRequests},
		{"issued", "Issued", (*user).serveIssued},
		lists("certificates", "Certificates", "Certificates of cert-manager.io, which are renewed in their Secrets.",
			listed{resource: "certificates.cert-manager.io", title: "Certificates", none: "There are no Certificates.", namespaced: true}),
		lists("issuers", "Issuers", "Issuers and ClusterIssuers of cert-manager.io, and what they get from ACME servers.",
			listed{resource: "issuers.cert-manager.io", title: "Issuers", none: "There are no Issuers.", namespaced: true},
			listed{resource: "clusterissuers.cert-manager.io", title: "ClusterIssuers", none: "There are no ClusterIssuers."},
			listed{resource: "orders.acme.cert-manager.io", title: "Orders", none: "There are no Orders.", namespaced: true},
			listed{resource: "challenges.acme.cert-manager.io", title: "Challenges", none: "No Challenge is under way.", namespaced: true}),
		lists("signers", "Signers", "Declared signers with their CAs. Open one to see its former CAs, its requests and who may sign.",
			listed{resource: "signers.certplane.dev", title: "Signers", none: "No Signer is declared.", hidden: []string{"Usages", "Trust", "Chain", "CA Bit"}}),
		{"trust", "Trust", (*user).serveTrust},
		{"hosts", "Hosts", (*user).serveHosts},
		lists("policies", "Policies", "Certificate policies decide about requests of all kinds. Open one to see what it would change in the modes Shadow and Warn.",
			listed{resource: "certificatepolicies.certplane.dev", title: "Policies", none: "There are no CertificatePolicies."},
			listed{resource: "certificatepolicyexceptions.certplane.dev", title: "Exceptions", none: "There are no CertificatePolicyExceptions."}),
		lists("acme", "ACME server", "What ACME clients get certificates from, and what they have ordered.",
			listed{resource: "acmeendpoints.certplane.dev", title: "Endpoints", none: "There are no AcmeEndpoints."},
			listed{resource: "acmeorders.certplane.dev", title: "Orders", none: "There are no AcmeOrders.", namespaced: true},
			listed{resource: "acmeaccounts.certplane.dev", title: "Accounts", none: "There are no AcmeAccounts."},
			listed{resource: "acmeexternalkeys.certplane.dev", title: "External keys", none: "There are no AcmeExternalKeys.", namespaced: true}),
	}
}
