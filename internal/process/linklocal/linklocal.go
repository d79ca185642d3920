// Package linklocal refuses connections to link-local addresses and to metadata services of
// clouds, which give this host's credentials to every client on it.
package linklocal

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/process/linklocal/ranges"
)

// Contains reports whether an address is link-local or belongs to a metadata service.
func Contains(address netip.Addr) bool {
	for _, one := range append(ranges.Embedded(address), ranges.Plain(address)) {
		if one.IsLinkLocalUnicast() || one.IsLinkLocalMulticast() || slices.Contains(ranges.Metadata(), one) {
			return true
		}
	}
	return false
}

// IsLocal reports whether an address is a loopback address or that of any interface.
func IsLocal(address netip.Addr) bool {
	for _, one := range append(ranges.Embedded(address), ranges.Plain(address)) {
		if one.IsLoopback() || one.IsUnspecified() {
			return true
		}
	}
	return false
}

// RefuseLoopback returns a check that refuses such addresses, which Issuers of namespaces must
// not name unless the field allowLoopback of a stanza of the configuration allows it.
func RefuseLoopback(stanza string) func(netip.Addr) error {
	return func(address netip.Addr) error {
		if IsLocal(address) {
			return fmt.Errorf("%s is a loopback address, which only ClusterIssuers may use: %s.allowLoopback allows it for Issuers", ranges.Plain(address), stanza)
		}
		return nil
	}
}

// Control returns the Control of a net.Dialer that refuses such addresses, and those that more
// checks refuse, after names have been resolved.
func Control(more ...func(netip.Addr) error) func(network, address string, c syscall.RawConn) error {
	check := checks(more)
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q: %w", address, err)
		}
		return check(at.Addr())
	}
}

// checks returns all checks as one.
func checks(more []func(netip.Addr) error) func(netip.Addr) error {
	return func(address netip.Addr) error {
		for _, refuses := range append([]func(netip.Addr) error{check}, more...) {
			if err := refuses(address); err != nil {
				return err
			}
		}
		return nil
	}
}

func check(address netip.Addr) error {
	if Contains(address) {
		return fmt.Errorf("%s is a link-local or metadata address, which no issuer may use", ranges.Plain(address))
	}
	return nil
}

// dialTimeout and keepAlive apply to the connections of a transport.
const (
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
)

// Guard makes a transport refuse such addresses, and those that more refuses, also after
// redirects. It replaces the transport's DialContext. The transport's proxies may have any
// address, because the operator chooses them.
func Guard(transport *http.Transport, more ...func(netip.Addr) error) {
	check := checks(more)
	var proxies sync.Map // by their addresses; few, because they come from the environment
	open := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	guarded := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: Control(more...)}
	if choose := transport.Proxy; choose != nil {
		transport.Proxy = func(r *http.Request) (*url.URL, error) {
			proxy, err := choose(r)
			if err != nil || proxy == nil {
				return nil, err
			}
			if address, err := netip.ParseAddr(r.URL.Hostname()); err == nil {
				if err := check(address); err != nil {
					return nil, err
				}
			}
			proxies.Store(ProxyAddress(proxy), true)
			return proxy, nil
		}
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, ok := proxies.Load(address); ok {
			return open.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// ProxyAddress returns the address of a proxy as a transport dials it.
func ProxyAddress(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}
