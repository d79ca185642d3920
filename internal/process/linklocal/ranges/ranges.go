// Package ranges lists IP addresses that stand for other addresses, and the addresses of
// metadata services of clouds.
package ranges

import (
	"net/netip"
	"slices"
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

// Metadata returns the addresses of metadata services that are not link-local.
func Metadata() []netip.Addr { return slices.Clone(metadata) }

// These ranges contain IPv4 addresses: IPv4-compatible addresses (RFC 4291 section 2.5.5.1)
// and NAT64 (RFC 6052) in the last four bytes, 6to4 (RFC 3056) after the first two. In the
// range of local translators (RFC 8215), the place depends on the length of their prefix,
// which is not known here.
var (
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	sixTo      = netip.MustParsePrefix("2002::/16")
	// teredo has the inverted IPv4 address of the client in the last four bytes (RFC 4380
	// section 4).
	teredo = netip.MustParsePrefix("2001::/32")
	// isatap are bytes 9 to 11 of an address whose last four are an IPv4 address (RFC 5214
	// section 6.1). Byte 8 is 0 or 2.
	isatap = [3]byte{0, 0x5e, 0xfe}
	// thisNetwork contains no host addresses: bytes in it are part of a prefix.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
)

// Embedded returns the IPv4 addresses that an IPv6 address can stand for; none if
// it stands for itself, like an IPv4 address.
func Embedded(address netip.Addr) []netip.Addr {
	address = address.WithZone("")
	if !address.Is6() {
		return nil
	}
	bytes := address.As16()
	last := netip.AddrFrom4([4]byte(bytes[12:]))
	switch {
	case address.Is4In6(), nat64.Contains(address):
		return []netip.Addr{last}
	case compatible.Contains(address) && !address.IsUnspecified() && !address.IsLoopback():
		return []netip.Addr{last}
	case sixTo.Contains(address):
		return []netip.Addr{netip.AddrFrom4([4]byte(bytes[2:6]))}
	case localNAT64.Contains(address):
		return translated(bytes)
	case teredo.Contains(address):
		return []netip.Addr{netip.AddrFrom4([4]byte{^bytes[12], ^bytes[13], ^bytes[14], ^bytes[15]})}
	case bytes[8]&^2 == 0 && [3]byte(bytes[9:12]) == isatap:
		return []netip.Addr{last}
	}
	return nil
}

// translated returns the addresses at the places that RFC 6052 section 2.2 defines for
// prefixes of 96, 64, 56 and 48 bits. Only the first place may include byte 8.
func translated(b [16]byte) []netip.Addr {
	var found []netip.Addr
	for _, bytes := range [][4]byte{
		{b[12], b[13], b[14], b[15]}, {b[9], b[10], b[11], b[12]}, {b[7], b[9], b[10], b[11]}, {b[6], b[7], b[9], b[10]},
	} {
		if address := netip.AddrFrom4(bytes); !thisNetwork.Contains(address) {
			found = append(found, address)
		}
	}
	if len(found) == 0 {
		found = append(found, netip.IPv4Unspecified())
	}
	return found
}

// Plain returns the IPv4 address that an IPv6 address stands for, or the address
// itself without a zone.
func Plain(address netip.Addr) netip.Addr {
	if embedded := Embedded(address); len(embedded) == 1 {
		return embedded[0]
	}
	return address.WithZone("")
}
