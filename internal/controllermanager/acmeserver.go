package controllermanager

import (
	"crypto/rand"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/controller/acmeapprove"
	"github.com/certplane/certplane/internal/controller/acmeclean"
	"github.com/certplane/certplane/internal/controller/acmeendpoints"
	"github.com/certplane/certplane/internal/controller/acmeorders"
	"github.com/certplane/certplane/internal/controller/acmevalidate"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/roots"
)

// ACMEServer is what the controllers of the ACME server know of it.
type ACMEServer struct {
	// ExternalURL is the base of its URLs; empty if none is configured.
	ExternalURL string
	// Roots are those of its certificate; nil if they are not known.
	Roots roots.Roots
	// Network is what validations must not connect to. The API is added.
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
	return acmevalidate.Add(a.Manager, acmevalidate.Config{Client: a.Client, Network: network, Versions: a.Versions, Events: a.Events, Metrics: a.Metrics})
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
		ExternalURL: cfg.ACMEServer.ExternalURL, Roots: cfg.ACMEServer.Roots,
		Requester: username(rights.ServeACMEOrders.Account), Reader: username(rights.ACMEServerAccount),
		EverythingIsApproved: cfg.Chooses(rights.ApproveRequests),
	}
	if cfg.Chooses(rights.Clean) {
		server.PendingRequestsFor = cfg.Settings.Cleaning.Pending.Duration
	}
	return acmeendpoints.Add(a.Manager, acmeendpoints.Config{Client: a.Client, Server: server, Versions: a.Versions, Rand: rand.Reader, Events: a.Events})
}
