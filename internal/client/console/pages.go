package console

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// page is a page of the navigation.
type page struct {
	Path, Title string
	serve       func(*user, http.ResponseWriter, *http.Request)
	// shows are the resources on the page. The menu contains the page for users who may
	// list at least one of them; empty for all users.
	shows []string
}

const (
	// menuTime is the time that a user's menu is cached.
	menuTime = time.Minute
	// maxMenus is the maximum number of cached menus.
	maxMenus = 1000
)

// menus caches the pages of the navigation for each user.
type menus struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	all   map[[sha256.Size]byte][]page
}

// remembered returns the cached pages of a user. It removes old entries.
func (m *menus) remembered(key [sha256.Size]byte) ([]page, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || m.now().Sub(m.since) > menuTime || len(m.all) >= maxMenus {
		m.all, m.since = map[[sha256.Size]byte][]page{}, m.now()
	}
	found, ok := m.all[key]
	return found, ok
}

func (m *menus) remember(key [sha256.Size]byte, found []page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[key] = found
}

// menu returns the pages of the navigation that the user may see. It includes a page if
// the API does not answer the check.
func (u *user) menu(ctx context.Context) []page {
	if found, ok := u.menus.remembered(u.key); ok {
		return found
	}
	has, certain := make([]bool, len(u.pages)), make([]bool, len(u.pages))
	var asking sync.WaitGroup
	for i, p := range u.pages {
		asking.Go(func() { has[i], certain[i] = u.mayList(ctx, p.shows) })
	}
	asking.Wait()
	var found []page
	all := true
	for i, p := range u.pages {
		if has[i] {
			found = append(found, p)
		}
		all = all && certain[i]
	}
	if all {
		u.menus.remember(u.key, found)
	}
	return found
}

// mayList reports whether the user may list one of the resources, and whether the API has
// answered.
func (u *user) mayList(ctx context.Context, resources []string) (may, certain bool) {
	if len(resources) == 0 {
		return true, true
	}
	for _, name := range resources {
		r := watchable[name]
		allowed, err := u.api.MayI(ctx, authorizationv1.ResourceAttributes{Verb: "list", Group: r.Group, Version: r.Version, Resource: r.Resource})
		if err != nil || allowed {
			return true, err == nil
		}
	}
	return false, true
}

// allPages returns the pages of the navigation, the first page first.
func allPages() []page {
	lists := func(path, title, lead string, all ...listed) page {
		p := page{Path: path, Title: title, serve: serveLists(title, lead, all...)}
		for _, l := range all {
			p.shows = append(p.shows, l.resource)
		}
		return p
	}
	return []page{
		{Path: "start", Title: "Start", serve: (*user).serveStart},
		{Path: requestsPath, Title: "Requests", serve: (*user).serveRequests},
		{Path: "issued", Title: "Issued", serve: (*user).serveIssued, shows: []string{"issuedcertificates." + inventoryv1alpha1.GroupVersion.Group}},
		lists("revocations", "Revocations", "Acts of revocation, each of one or more certificates. They are final. The page of an issued certificate revokes it.",
			listed{resource: revocations, title: "Revocations", none: "No certificate has been revoked."}),
		{Path: "certificates", Title: "Certificates", serve: (*user).serveCertificates, shows: []string{certificatesResource}},
		lists("issuers", "Issuers", "Issuers and ClusterIssuers of cert-manager.io, and their orders at ACME servers.",
			listed{resource: "issuers.cert-manager.io", title: "Issuers", none: "There are no Issuers.", namespaced: true},
			listed{resource: "clusterissuers.cert-manager.io", title: "ClusterIssuers", none: "There are no ClusterIssuers."},
			listed{resource: "orders.acme.cert-manager.io", title: "Orders", none: "There are no Orders.", namespaced: true},
			listed{resource: "challenges.acme.cert-manager.io", title: "Challenges", none: "No Challenge is under way.", namespaced: true}),
		lists("signers", "Signers", "Declared signers with their CAs. Open one to see its former CAs, its requests and the accounts that may sign.",
			listed{resource: "signers.certplane.dev", title: "Signers", none: "No Signer is declared.", hidden: []string{"Usages", "Trust", "Chain", "CA Bit", "Status"}}),
		{Path: "trust", Title: "Trust", serve: (*user).serveTrust, shows: []string{"clustertrustbundles.certificates.k8s.io"}},
		{Path: "hosts", Title: "Hosts", serve: (*user).serveHosts, shows: []string{"nodes"}},
		lists("policies", "Policies", "Certificate policies decide requests of all kinds. Open one to see what it would change in the modes Shadow and Warn.",
			listed{resource: "certificatepolicies.certplane.dev", title: "Policies", none: "There are no CertificatePolicies."},
			listed{resource: "certificatepolicyexceptions.certplane.dev", title: "Exceptions", none: "There are no CertificatePolicyExceptions."}),
		lists("acme", "ACME server", "Endpoints, accounts and orders of ACME clients.",
			listed{resource: "acmeendpoints.certplane.dev", title: "Endpoints", none: "There are no AcmeEndpoints."},
			listed{resource: "acmeorders.certplane.dev", title: "Orders", none: "There are no AcmeOrders.", namespaced: true},
			listed{resource: "acmeaccounts.certplane.dev", title: "Accounts", none: "There are no AcmeAccounts."},
			listed{resource: "acmeexternalkeys.certplane.dev", title: "External keys", none: "There are no AcmeExternalKeys.", namespaced: true}),
	}
}
