// Package linklocal refuses connections to link-local addresses and metadata
// services of clouds, which give credentials of this host to whoever asks.
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
)

// metadata are addresses of metadata services that are not link-local: of AWS
// (two), Google Cloud, Alibaba Cloud and Azure.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
}

// These ranges have IPv4 addresses in them: NAT64 (RFC 6052, in the last four
// bytes) and 6to4 (RFC 3056, after the first two).
var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	sixTo = netip.MustParsePrefix("2002::/16")
)

// Plain returns the IPv4 address that an IPv6 address stands for, or the address
// itself without a zone.
func Plain(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	bytes := address.As16()
	switch {
	case address.Is4():
	case nat64.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixTo.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return address
}

// Contains reports whether an address is link-local or that of a metadata
// service.
func Contains(address netip.Addr) bool {
	address = Plain(address)
	return address.IsLinkLocalUnicast() || address.IsLinkLocalMulticast() || slices.Contains(metadata, address)
}

// Control is the Control of a net.Dialer that refuses such addresses, after names
// have been resolved.
func Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	return check(at.Addr())
}

func check(address netip.Addr) error {
	if Contains(address) {
		return fmt.Errorf("%s is a link-local or metadata address, which no issuer may use", Plain(address))
	}
	return nil
}

// dialTimeout and keepAlive are those of connections of a transport.
const (
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
)

// Guard has a transport refuse such addresses. It replaces its DialContext. The
// transport's proxies may have any address: they are the operator's choice.
func Guard(transport *http.Transport) {
	var proxies sync.Map // by their addresses; those of the environment, so few
	open := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	guarded := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: Control}
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
