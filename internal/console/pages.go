package console

import "net/http"

// page is a page of the navigation.
type page struct {
	Path, Title string
	serve       func(*user, http.ResponseWriter, *http.Request)
}

const (
	certManager = "cert-manager.io"
	acmeManager = "acme.cert-manager.io"
	certplane   = "certplane.dev"
)

// allPages returns the pages of the navigation, the first page first.
func allPages() []page {
	lists := func(path, title, lead string, all ...listed) page {
		return page{path, title, serveLists(title, lead, all...)}
	}
	return []page{
		{"requests", "Requests", (*user).serveRequests},
		{"issued", "Issued", (*user).serveIssued},
		lists("certificates", "Certificates", "Certificates of cert-manager.io, which are renewed in their Secrets.",
			listed{group: certManager, version: "v1", resource: "certificates", title: "Certificates", none: "There are no Certificates.", namespaced: true}),
		lists("issuers", "Issuers", "Issuers and ClusterIssuers of cert-manager.io, and what they get from ACME servers.",
			listed{group: certManager, version: "v1", resource: "issuers", title: "Issuers", none: "There are no Issuers.", namespaced: true},
			listed{group: certManager, version: "v1", resource: "clusterissuers", title: "ClusterIssuers", none: "There are no ClusterIssuers."},
			listed{group: acmeManager, version: "v1", resource: "orders", title: "Orders", none: "There are no Orders.", namespaced: true},
			listed{group: acmeManager, version: "v1", resource: "challenges", title: "Challenges", none: "No Challenge is under way.", namespaced: true}),
		lists("signers", "Signers", "Declared signers with their CAs. Open one to see its former CAs, its requests and who may sign.",
			listed{group: certplane, version: "v1alpha1", resource: "signers", title: "Signers", none: "No Signer is declared.", hidden: []string{"Usages", "Trust", "Chain", "CA Bit"}}),
		{"trust", "Trust", (*user).serveTrust},
		{"hosts", "Hosts", (*user).serveHosts},
		lists("policies", "Policies", "Certificate policies decide about requests of all kinds. Open one to see what it would change in the modes Shadow and Warn.",
			listed{group: certplane, version: "v1alpha1", resource: "certificatepolicies", title: "Policies", none: "There are no CertificatePolicies."},
			listed{group: certplane, version: "v1alpha1", resource: "certificatepolicyexceptions", title: "Exceptions", none: "There are no CertificatePolicyExceptions."}),
		lists("acme", "ACME server", "What ACME clients get certificates from, and what they have ordered.",
			listed{group: certplane, version: "v1alpha1", resource: "acmeendpoints", title: "Endpoints", none: "There are no AcmeEndpoints."},
			listed{group: certplane, version: "v1alpha1", resource: "acmeorders", title: "Orders", none: "There are no AcmeOrders.", namespaced: true},
			listed{group: certplane, version: "v1alpha1", resource: "acmeaccounts", title: "Accounts", none: "There are no AcmeAccounts."},
			listed{group: certplane, version: "v1alpha1", resource: "acmeexternalkeys", title: "External keys", none: "There are no AcmeExternalKeys.", namespaced: true}),
	}
}
