// Package outbound connects to servers that users name in their issuers.
package outbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/process/linklocal"
	"github.com/certplane/certplane/internal/process/linklocal/ranges"
)

const (
	// idleTimeout is how long a connection is kept for the next call.
	idleTimeout = 90 * time.Second
	// maxHeader is the maximum size of the header of a response, in bytes.
	maxHeader = 64 << 10
	// maxConnections is the maximum number of connections to one server.
	maxConnections = 10
)

// Guard restricts the addresses that may be dialled.
type Guard struct {
	Loopback, LinkLocal bool
	// Stanza is the part of the configuration with the fields allowLoopback and
	// allowLinkLocal. Errors name it.
	Stanza string
}

// Check returns an error for a forbidden address. Names must already be resolved.
func (g Guard) Check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	ip := ranges.Plain(at.Addr())
	switch {
	case !g.LinkLocal && linklocal.Contains(ip):
		return fmt.Errorf("%s is a link-local or metadata address, which no issuer may use: %s.allowLinkLocal allows it", ip, g.Stanza)
	case !g.Loopback:
		return linklocal.RefuseLoopback(g.Stanza)(at.Addr())
	}
	return nil
}

// dial returns a DialContext that refuses forbidden addresses. The proxy of this process is
// always permitted, because the operator chose it.
func (g Guard) dial(proxy string) func(ctx context.Context, network, address string) (net.Conn, error) {
	guarded := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return g.Check(address) }}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if proxy != "" && address == proxy {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// checkProxied returns an error for a forbidden IP address of a server that is reached
// through a proxy.
func (g Guard) checkProxied(server *url.URL) error {
	if ip, err := netip.ParseAddr(server.Hostname()); err == nil {
		return g.Check(netip.AddrPortFrom(ip, 0).String())
	}
	return nil
}

// NewTransport returns the transport for a server. It reads only the proxy from the
// environment.
func NewTransport(config *tls.Config, g Guard, server *url.URL) (*http.Transport, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: server})
	if err != nil {
		return nil, fmt.Errorf("reading the proxy from the environment: %w", err)
	}
	by := ""
	if proxy != nil {
		if err := g.checkProxied(server); err != nil {
			return nil, err
		}
		by = linklocal.ProxyAddress(proxy)
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            g.dial(by),
		TLSClientConfig:        config,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConnections,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		// A decompressed response can be larger than MaxBody.
		DisableCompression: true,
	}, nil
}
