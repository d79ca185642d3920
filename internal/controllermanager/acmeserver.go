package controllermanager

import (
	"crypto/rand"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/attempts"
	"github.com/certplane/certplane/internal/controller/acmeapprove"
	"github.com/certplane/certplane/internal/controller/acmeclean"
	"github.com/certplane/certplane/internal/controller/acmeendpoints"
	"github.com/certplane/certplane/internal/controller/acmeorders"
	"github.com/certplane/certplane/internal/controller/acmevalidate"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// ACMEServer is what the controllers of the ACME server know of it.
type ACMEServer struct {
	// Fingerprint returns that of the root of its certificate, empty if it is not
	// known. It can be nil.
	Fingerprint func() string
	// Roots returns the roots by which clients know its certificate, in PEM. It can be
	// nil.
	Roots func() []byte
	// Skew returns how far the clock of another process of the server is off. It can be
	// nil.
	Skew func() time.Duration
	// Attempts is where the server asks for attempts of challenges; it can be nil.
	Attempts *attempts.Desk
	// Network is what validations must not connect to. The API is added, and the
	// listeners that Settings name.
	Network acmevalidate.Network
}

// removed stands in the cache for what is there in the API, so that it can be told
// from what was cleaned up.
const removed = "-"

// trimOrders takes from orders in the cache what only clients read, once the orders
// have ended: whoever writes such an order reads it from the API.
func trimOrders(object any) (any, error) {
	object, err := cache.TransformStripManagedFields()(object)
	o, ok := object.(*v1alpha1.AcmeOrder)
	if !ok || err != nil {
		return object, err
	}
	switch o.Status.State {
	case v1alpha1.AcmeOrderValid, v1alpha1.AcmeOrderInvalid:
	default:
		return o, nil
	}
	if len(o.Status.CSR) > 0 {
		o.Status.CSR = []byte(removed)
	}
	if c := o.Status.Certificate; c != nil && c.Chain != "" {
		without := *c // the API's cache has the other one
		without.Chain = removed
		o.Status.Certificate = &without
	}
	return o, nil
}

func addACMEOrders(a Actor, _ Config) error {
	return acmeorders.Add(a.Manager, acmeorders.Config{API: a.API, Client: a.Client, Versions: a.Versions, Events: a.Events, Metrics: a.Metrics})
}

func addACMEValidator(a Actor, cfg Config) error {
	network := cfg.ACMEServer.Network
	network.API = a.Reader.Host
	acme := cfg.Settings.ACME
	network.Listeners = append(slices.Clone(network.Listeners), listeners(slices.Concat([]string{cfg.Settings.ACMEServer.Listen}, acme.HTTP01.Listen, acme.TLSALPN01.Listen))...)
	return acmevalidate.Add(a.Manager, acmevalidate.Config{Client: a.Client, Network: network, Attempts: cfg.ACMEServer.Attempts, Versions: a.Versions, Events: a.Events, Metrics: a.Metrics})
}

// listeners returns the addresses, HOST:PORT, at which the process listens. Names are
// not looked up: what is listened at by a name is an address of this host.
func listeners(texts []string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, text := range texts {
		host, port, err := net.SplitHostPort(text)
		if err != nil {
			continue // nothing is served
		}
		address, err := netip.ParseAddr(host)
		if err != nil {
			address = netip.IPv6Unspecified()
		}
		if number, err := strconv.ParseUint(port, 10, 16); err == nil {
			all = append(all, netip.AddrPortFrom(address, uint16(number)))
		}
	}
	return all
}

func addACMECleaner(a Actor, _ Config) error {
	return acmeclean.Add(a.Manager, acmeclean.Config{Client: a.Client, Versions: a.Versions, Events: a.Events})
}

func addACMEApprover(a Actor, cfg Config) error {
	return acmeapprove.Add(a.Manager, acmeapprove.Config{Client: a.Client, Versions: a.Versions, Policies: cfg.Policies, OnCreate: a.OnCreate, Events: a.Events})
}

func addACMEEndpoints(a Actor, cfg Config) error {
	username := func(account string) string { return request.ServiceAccount(a.Namespace, account).Username }
	server := acmeendpoints.Server{
		Fingerprint: cfg.ACMEServer.Fingerprint, Roots: cfg.ACMEServer.Roots, Skew: cfg.ACMEServer.Skew,
		Requester: username(rights.ServeACMEOrders.Account), Reader: username(rights.ACMEServerAccount),
		EverythingIsApproved: cfg.Chooses(rights.ApproveRequests),
	}
	if settings := cfg.Settings.ACMEServer; !settings.Off() || cfg.InCluster {
		server.ExternalURL = settings.ExternalURL
	}
	if cfg.Chooses(rights.Clean) {
		server.PendingRequestsFor = cfg.Settings.Cleaning.Pending.Duration
	}
	return acmeendpoints.Add(a.Manager, acmeendpoints.Config{Client: a.Client, Server: server, Versions: a.Versions, Rand: rand.Reader, Events: a.Events})
}
