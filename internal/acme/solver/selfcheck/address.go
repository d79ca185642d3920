package selfcheck

import (
	"fmt"
	"net/netip"
	"slices"
)

// metadata are addresses outside of the link-local ranges at which clouds serve
// the credentials of a host.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
}

// These ranges have IPv4 addresses in them: NAT64 (RFC 6052, in the last four
// bytes) and 6to4 (RFC 3056, after the first two).
var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	sixTo = netip.MustParsePrefix("2002::/16")
	// thisNetwork reaches the host itself on some systems.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// shared is for carriers (RFC 6598).
	shared = netip.MustParsePrefix("100.64.0.0/10")
)

// plain returns the IPv4 address that an IPv6 address stands for, or the address
// itself without a zone.
func plain(address netip.Addr) netip.Addr {
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

// isPrivate reports whether an address has no meaning on the Internet.
func isPrivate(address netip.Addr) bool {
	address = plain(address)
	return address.IsPrivate() || address.IsLoopback() || shared.Contains(address)
}

// refusal returns why no connection may be opened to an address, or nil. first
// is the address with which a check began; it is the zero Addr for that one.
//
// Names can point anywhere. A check must not reach what serves only this host,
// and a public server must not be able to aim it at a private network.
func refusal(address, first netip.Addr) error {
	real := plain(address)
	switch {
	case !real.IsValid() || real.IsUnspecified() || thisNetwork.Contains(real) || real.IsMulticast():
		return fmt.Errorf("%s is not the address of a host", address)
	case real.IsLinkLocalUnicast() || slices.Contains(metadata, real):
		return fmt.Errorf("%s is a link-local or metadata address, which is never contacted", address)
	case first.IsValid() && !isPrivate(first) && isPrivate(real):
		return fmt.Errorf("%s is a private address: redirects from a public address to a private one are not followed", address)
	}
	return nil
}
