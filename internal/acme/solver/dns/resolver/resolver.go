// Package resolver looks up in the DNS what DNS-01 challenges need: CNAMEs, the
// zone of a name, its authoritative servers, and TXT records.
package resolver

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"github.com/miekg/dns"
	"k8s.io/utils/clock"
)

// Config says which servers are asked, and how.
type Config struct {
	// Nameservers are the recursive name servers: <IP address>:<port>, or
	// https:// for DNS over HTTPS. Each is asked if those before it do not
	// answer. Default: those of ResolvConf.
	Nameservers []string
	// ResolvConf is the file with the name servers of the host. It is read for
	// each lookup. Default: /etc/resolv.conf.
	ResolvConf string
	// Timeout is that of one query over UDP, TCP or HTTPS. Default: 5s.
	Timeout time.Duration
	// Roots are the CAs for DNS over HTTPS. Default: those of the host.
	Roots *x509.CertPool
	// Port is that of authoritative servers. Default: 53.
	Port string
	// Clock is for the cache.
	Clock clock.PassiveClock
}

// publicNameservers are asked if the host has no name servers of its own, as
// cert-manager does.
var publicNameservers = []string{"8.8.8.8:53", "8.8.4.4:53"}

// Resolver looks up names. It is safe for concurrent use.
type Resolver struct {
	cfg   Config
	https *http.Client
	zones *cache[string]
	hosts *cache[[]string]

	silent silent
}

// New returns a Resolver.
func New(cfg Config) *Resolver {
	cfg.ResolvConf = cmp.Or(cfg.ResolvConf, "/etc/resolv.conf")
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	cfg.Port = cmp.Or(cfg.Port, "53")
	return &Resolver{
		cfg: cfg, https: newHTTPClient(cfg),
		zones: newCache[string](cfg.Clock), hosts: newCache[[]string](cfg.Clock),
	}
}

func newHTTPClient(cfg Config) *http.Client {
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
			ForceAttemptHTTP2:      true,
			MaxConnsPerHost:        8,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Nameservers returns the recursive name servers that are asked.
func (r *Resolver) Nameservers() []string {
	if len(r.cfg.Nameservers) > 0 {
		return r.cfg.Nameservers
	}
	host, err := dns.ClientConfigFromFile(r.cfg.ResolvConf)
	if err != nil || len(host.Servers) == 0 {
		return publicNameservers
	}
	servers := make([]string, 0, len(host.Servers))
	for _, server := range host.Servers {
		servers = append(servers, net.JoinHostPort(server, host.Port))
	}
	return servers[:min(len(servers), maxServers)]
}
