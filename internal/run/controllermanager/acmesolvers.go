package controllermanager

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/dns"
	"github.com/certplane/certplane/internal/acme/solver/dns/providers"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/acme/solver/incluster"
	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/socket"
	"github.com/certplane/certplane/internal/acme/solver/tlsalpn"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/process/linklocal"
)

// userAgent names this program to ACME servers and in self checks.
func userAgent() string { return "certplane/" + buildinfo.Read().Version }

// providerTimeout is how long one call to the API of a DNS provider may take.
const providerTimeout = 30 * time.Second

// Responders answer the validations of ACME servers at listeners of the process.
type Responders struct {
	// Index has the challenges that they answer.
	Index     *live.Index
	HTTP01    *responder.Responder
	TLSALPN01 *tlsalpn.Server
}

// NewResponders returns the responders of a process, which are front ends of it:
// they answer once they are served.
func NewResponders(s ACMESettings, metrics prometheus.Registerer) (Responders, error) {
	r := Responders{Index: live.NewIndex()}
	inherited := socket.FromEnvironment(os.Getenv, os.Getpid())
	var err error
	r.HTTP01, err = responder.New(responder.Config{
		Settings: s.HTTP01.Settings, Index: r.Index, Inherited: inherited, Metrics: metrics, Clock: clock.RealClock{}, UserAgent: userAgent(),
	})
	if err != nil {
		return Responders{}, err
	}
	r.TLSALPN01, err = tlsalpn.New(tlsalpn.Config{Settings: s.TLSALPN01, Index: r.Index, Inherited: inherited, Metrics: metrics, Clock: clock.RealClock{}})
	return r, err
}

// FrontEnds returns the responders that have listeners.
func (r Responders) FrontEnds(s ACMESettings) (http01 *responder.Responder, tlsALPN01 *tlsalpn.Server) {
	if !s.HTTP01.Off() {
		http01 = r.HTTP01
	}
	if !s.TLSALPN01.Off() {
		tlsALPN01 = r.TLSALPN01
	}
	return http01, tlsALPN01
}

// solvers returns the function that finds the solver of a Challenge.
func (a Actor) solvers(cfg Config) (func(*acmev1.Challenge) (solver.Solver, error), error) {
	settings := cfg.Settings.ACME
	network := selfcheck.Network{Resolver: selfcheck.NewResolver(settings.HTTP01.Nameservers)}
	public := selfcheck.HTTP{Network: network, UserAgent: userAgent(), Proxy: http.ProxyFromEnvironment}
	byDNS, err := a.dnsSolver(cfg)
	if err != nil {
		return nil, err
	}
	all := map[acmev1.ACMEChallengeType]solver.Solver{
		acmev1.ACMEChallengeTypeHTTP01: cfg.Responders.HTTP01.Solver(public),
		acmev1.ACMEChallengeTypeDNS01:  byDNS,
		certmanager.TypeTLSALPN01:      cfg.Responders.TLSALPN01.Solver(network),
		certmanager.TypeDNSAccount01:   byDNS,
		certmanager.TypeDNSPersist01:   byDNS,
	}
	if cfg.InCluster && settings.HTTP01.Off() {
		all[acmev1.ACMEChallengeTypeHTTP01] = incluster.New(incluster.Config{Client: a.Client, Settings: settings.HTTP01.Cluster, SelfCheck: public.Check})
	}
	return func(ch *acmev1.Challenge) (solver.Solver, error) {
		if found, ok := all[ch.Spec.Type]; ok {
			return found, nil
		}
		return nil, fmt.Errorf("challenges of type %s are not supported", ch.Spec.Type)
	}, nil
}

// providerClient returns the client for the APIs of DNS providers, whose
// addresses issuers can name. It refuses addresses that more checks refuse.
func providerClient(more ...func(netip.Addr) error) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	linklocal.Guard(transport, more...)
	return &http.Client{Timeout: providerTimeout, Transport: transport}
}

// guardedClient returns the client for providers that Issuers of namespaces name; nil if
// they may name what ClusterIssuers may.
func guardedClient(refuse func(netip.Addr) error) *http.Client {
	if refuse == nil {
		return nil
	}
	return providerClient(refuse)
}

// metadataHost is the name of Google Cloud's metadata service.
const metadataHost = "metadata.google.internal"

// metadataClient returns the client for the metadata services of clouds. They
// are never asked through a proxy.
func metadataClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = func(req *http.Request) (*url.URL, error) {
		host := req.URL.Hostname()
		address, err := netip.ParseAddr(host)
		if host == metadataHost || err == nil && linklocal.Contains(address) {
			return nil, nil
		}
		return http.ProxyFromEnvironment(req)
	}
	return &http.Client{Timeout: providerTimeout, Transport: transport}
}

// dnsSolver returns the solver for all types of challenges that are answered by
// DNS records.
func (a Actor) dnsSolver(cfg Config) (solver.Solver, error) {
	settings := cfg.Settings.ACME.DNS01
	resolver, err := settings.NewResolver(clock.RealClock{})
	if err != nil {
		return nil, err
	}
	self := request.ServiceAccount(a.Namespace, a.Account)
	webhooks := webhook.Config{Settings: settings.Webhooks, Identity: webhook.Identity{User: self.Username, Groups: self.Groups}, Proxy: cfg.FrontProxy}
	if cfg.InCluster {
		webhooks.API = a.API
	}
	caller, err := webhook.New(webhooks)
	if err != nil {
		return nil, err
	}
	var refuse func(netip.Addr) error
	if !cfg.Settings.ACME.AllowLoopback {
		refuse = linklocal.RefuseLoopback("acme")
	}
	return dns.New(dns.Config{
		RefuseAddress: refuse, GuardedHTTP: guardedClient(refuse),
		Settings: settings, Resolver: resolver, Client: a.Client, HTTP: providerClient(), Metadata: metadataClient(),
		Providers: providers.All(), Webhooks: caller, ClusterAmbient: cfg.InCluster, Clock: clock.RealClock{},
	}), nil
}
