// Package resolver looks up in the DNS what DNS-01 challenges need: CNAMEs, the
// zone of a name, its authoritative servers, and TXT records.
package resolver

import (
	"cmp"
	"crypto/x509"
	"time"

	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/dnsquery"
)

// Config configures the servers to ask, and how to ask them.
type Config struct {
	// Nameservers are the recursive name servers: <IP address>:<port>, or
	// https:// for DNS over HTTPS. Each is asked if those before it do not
	// answer. Default: those of ResolvConf.
	Nameservers []string
	// ResolvConf is the file with the name servers of the host. It is read for
	// each lookup. Default: /etc/resolv.conf.
	ResolvConf string
	// Timeout limits one query over UDP, TCP or HTTPS. Default: 5s.
	Timeout time.Duration
	// Roots are the CAs for DNS over HTTPS. Default: the host's.
	Roots *x509.CertPool
	// Port is the port of authoritative servers. Default: 53.
	Port string
	// Clock is for the cache.
	Clock clock.PassiveClock
}

// publicNameservers are asked if no name servers are configured on the host, as in
// cert-manager.
var publicNameservers = []string{"8.8.8.8:53", "8.8.4.4:53"}

// Resolver looks up names. It is safe for concurrent use.
type Resolver struct {
	cfg    Config
	client *dnsquery.Client
	zones  *cache[string]
	hosts  *cache[[]string]

	silent silent
}

// New returns a Resolver.
func New(cfg Config) *Resolver {
	cfg.ResolvConf = cmp.Or(cfg.ResolvConf, "/etc/resolv.conf")
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	cfg.Port = cmp.Or(cfg.Port, "53")
	return &Resolver{
		cfg: cfg, client: dnsquery.NewClient(dnsquery.Config{Timeout: cfg.Timeout, UDPSize: udpSize, Roots: cfg.Roots}),
		zones: newCache[string](cfg.Clock), hosts: newCache[[]string](cfg.Clock),
	}
}

// Nameservers returns the recursive name servers that are asked.
func (r *Resolver) Nameservers() []string {
	if len(r.cfg.Nameservers) > 0 {
		return r.cfg.Nameservers
	}
	servers, err := dnsquery.HostServers(r.cfg.ResolvConf)
	if err != nil || len(servers) == 0 {
		return publicNameservers
	}
	return servers[:min(len(servers), maxServers)]
}
