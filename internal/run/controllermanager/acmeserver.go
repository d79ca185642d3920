package controllermanager

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/controller/acmecert"
	"github.com/certplane/certplane/internal/controller/acmeclean"
	"github.com/certplane/certplane/internal/controller/acmeendpoints"
	"github.com/certplane/certplane/internal/controller/acmeorders"
	"github.com/certplane/certplane/internal/controller/acmevalidate"
	"github.com/certplane/certplane/internal/controller/approving"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// ACMEServer describes the ACME server to its controllers.
type ACMEServer struct {
	// Listener is where clients of this process reach it. It is nil if they do not.
	Listener *listener.Server
	// Attempts is where the server asks for attempts of challenges; it can be nil.
	Attempts *attempts.Desk
	// Network is what validations must not connect to. The API is added, and what
	// Settings name.
	Network acmevalidate.Network
}

// removed replaces trimmed values in the cache, so that they differ from values that were
// deleted in the API.
const removed = "-"

// trim removes from objects in the cache what no controller needs: managed fields, and from
// ended orders the parts that only clients read. Code that writes such an order must read it
// from the API.
func trim(object any) (any, error) {
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
		without.Chain, without.Alternates = removed, nil
		o.Status.Certificate = &without
	}
	if a := o.Status.Approval; a != nil && a.Sealed != "" {
		without := *a
		without.Sealed, without.SealedOthers = removed, nil
		o.Status.Approval = &without
	}
	return o, nil
}

func addACMEOrders(a Actor, cfg Config) error {
	orders := acmeorders.Config{API: a.API, Client: a.Client, Versions: a.Versions, Open: cfg.Policies.OpenSealed(), Attempts: cfg.ACMEServer.Attempts, Events: a.Events, Metrics: a.Metrics}
	if cfg.Records != nil {
		orders.Revoked, orders.Server = cfg.Records.Revoked(), request.ServiceAccount(a.Namespace, rights.ACMEServerAccount).Username
	}
	return acmeorders.Add(a.Manager, orders)
}

func addACMEValidator(a Actor, cfg Config) error {
	network := cfg.ACMEServer.Network
	network.URLs = append(slices.Clone(network.URLs), a.Reader.Host)
	network.Reserved = append(slices.Clone(network.Reserved), cfg.Settings.ACMEServer.Reserved()...)
	network.ClusterDomain = cfg.Settings.PodSigners.ClusterDomain
	acme := cfg.Settings.ACME
	network.Listeners = append(slices.Clone(network.Listeners), listeners(slices.Concat([]string{cfg.Settings.ACMEServer.Listen, cfg.Settings.ACMEServer.RootsListen}, acme.HTTP01.Listen, acme.TLSALPN01.Listen))...)
	return acmevalidate.Add(a.Manager, acmevalidate.Config{Client: a.Client, Network: network, Attempts: cfg.ACMEServer.Attempts, Versions: a.Versions, Events: a.Events, Metrics: a.Metrics})
}

// listeners returns the addresses, HOST:PORT, at which the process listens. It does not
// resolve names: a name counts as all addresses of this host.
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
	return approving.AddOrders(a.Manager, approving.Config{Client: a.Client, Versions: a.Versions, Policies: cfg.Policies, OnCreate: a.OnCreate, Events: a.Events})
}

func addACMEEndpoints(a Actor, cfg Config) error {
	username := func(account string) string { return request.ServiceAccount(a.Namespace, account).Username }
	server := acmeendpoints.Server{
		Requester: username(rights.ServeACMEOrders.Account), Reader: username(rights.ACMEServerAccount),
		EverythingIsApproved: cfg.Chooses(rights.ApproveRequests),
		ApprovalsSealed:      func() bool { return cfg.Policies != nil && len(cfg.Policies.Seals().Keys()) > 0 },
	}
	if at := cfg.ACMEServer.Listener; at != nil {
		server.Trust = func() (string, []byte) { now := at.Trust(); return now.Fingerprint(), now.PEM() }
		server.Skew, server.WaitsFor, server.NextWaitsFor, server.Subscribe = at.Skew, at.WaitsFor, at.NextWaitsFor, at.Subscribe
	}
	if settings := cfg.Settings.ACMEServer; !settings.Off() || cfg.InCluster {
		server.ExternalURL = settings.ExternalURL
	}
	if cfg.Chooses(rights.Clean) {
		server.PendingRequestsFor = cfg.Settings.Cleaning.Pending.Duration
	}
	bundles, err := a.NewCache("trust bundles", cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	return acmeendpoints.Add(a.Manager, acmeendpoints.Config{Client: a.Client, Bundles: bundles, Server: server, Versions: a.Versions, Rand: rand.Reader, Events: a.Events})
}

// keepsACMECertificate reports whether the process serves a certificate from a Secret.
func (c Config) keepsACMECertificate() bool {
	return !c.Settings.ACMEServer.Off() && c.Settings.ACMEServer.Certificate.Kept()
}

func addACMECertificate(a Actor, cfg Config) error {
	at, settings := cfg.ACMEServer.Listener, cfg.Settings.ACMEServer
	if at == nil {
		return nil // a process that only prints its plan
	}
	secret := client.ObjectKey{Namespace: a.Namespace, Name: rights.ACMECertificate}
	changes, err := a.NewCache("the Secret of the ACME server", acmecert.Watched(secret))
	if err != nil {
		return err
	}
	keeps := acmecert.Config{
		Client: a.Client, Changes: changes, Secret: secret, Hosts: settings.Hosts(), Issuing: cfg.issuing, Wait: at.Wait,
		Source: acmecert.Source{Signer: settings.Certificate.Signer},
		Use: func(certificate *tls.Certificate, trusted []*x509.Certificate) {
			at.Use(certificate, listener.TrustIn(trusted...))
		},
	}
	if of := settings.Certificate.Issuer; of != nil {
		keeps.Source.Issuer = &cmmeta.IssuerReference{Name: of.Name, Kind: cmp.Or(of.Kind, cmv1.IssuerKind), Group: cmp.Or(of.Group, certmanager.Group)}
	}
	if path := settings.Certificate.RootFile; path != "" {
		if keeps.Roots, err = roots.File(path, nil); err != nil {
			return fmt.Errorf("acmeServer.certificate.rootFile: %w", err)
		}
	}
	return acmecert.Add(a.Manager, keeps)
}
