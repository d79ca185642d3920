// Package acmeaddress decides which addresses and names the ACME server may connect to.
package acmeaddress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/process/linklocal/ranges"
)

// AddressRules limit the addresses that the ACME server may connect to when it validates
// challenges.
type AddressRules struct {
	// Allow, if not empty, lists all permitted networks. An entry inside Reserved, or
	// inside a loopback or link-local range, permits that part of it; a wider entry such
	// as 0.0.0.0/0 does not.
	Allow []netip.Prefix
	// Deny lists networks that are never permitted.
	Deny []netip.Prefix
	// AllowLocal lets entries of Allow open loopback, link-local and metadata
	// addresses.
	AllowLocal bool
	// Host lists the addresses of the host of the process. Only its ports 80 and 443 are
	// permitted.
	Host []netip.Addr
	// Listeners are the addresses that the process itself listens on; they are never
	// permitted. An unspecified address stands for all addresses of the host.
	Listeners []netip.AddrPort
	// Reserved lists the addresses of the API server, of Services and of etcd.
	Reserved []netip.Prefix
}

// Refusal is the reason why an address or a name is not permitted, empty if it is
// permitted. It is for logs and administrators: clients learn only that it is not
// permitted.
type Refusal string

// Refusals of addresses and names.
const (
	RefusedInvalid   Refusal = "this is not an address"
	RefusedDenied    Refusal = "networks.deny has it"
	RefusedListener  Refusal = "this process listens there"
	RefusedHostPort  Refusal = "of this host only the ports 80 and 443 are permitted"
	RefusedLocal     Refusal = "it is a loopback, link-local or metadata address"
	RefusedNoHost    Refusal = "no host has such an address"
	RefusedReserved  Refusal = "it belongs to the API server, to Services or to etcd"
	RefusedNotListed Refusal = "networks.allow does not have it"
	RefusedName      Refusal = "it is a name of this host, of the local network or of the cluster"
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

var (
	// local are the ranges that only listing and AllowLocal open.
	local    = slices.Concat(prefixes("0.0.0.0/32", "::/128", "127.0.0.0/8", "::1/128", "169.254.0.0/16", "fe80::/10"), single(ranges.Metadata()))
	loopback = prefixes("127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128")
	// noHost are ranges in which nothing is validated: "this" network, protocol
	// assignments, documentation, benchmarks, multicast, reserved (IANA's
	// special-purpose registries); in IPv6, Teredo and documentation.
	noHost = prefixes(
		"0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/32", "2001:2::/48", "2001:db8::/32", "3fff::/20",
	)
	// hosts6 are the IPv6 ranges that hosts have: global unicast, and unique local.
	hosts6 = prefixes("2000::/3", "fc00::/7")
)

// single returns the prefixes of one address each.
func single(addresses []netip.Addr) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(addresses))
	for _, address := range addresses {
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	return all
}

// JudgeAddress returns why the ACME server may not connect to an address, or "".
// An IPv6 address that stands for an IPv4 address is judged as that one.
func JudgeAddress(to netip.AddrPort, rules AddressRules) Refusal {
	address := to.Addr().WithZone("")
	if !address.IsValid() {
		return RefusedInvalid
	}
	if holds(rules.Deny, address) {
		return RefusedDenied
	}
	embedded := ranges.Embedded(address)
	if len(embedded) == 0 {
		embedded = []netip.Addr{address}
	}
	for _, one := range embedded {
		if refusal := rules.judge(netip.AddrPortFrom(one, to.Port())); refusal != "" {
			return refusal
		}
	}
	return ""
}

// judge is JudgeAddress for an address that stands for itself.
func (r AddressRules) judge(to netip.AddrPort) Refusal {
	address := to.Addr()
	isLocal := holds(local, address)
	switch {
	case holds(r.Deny, address):
		return RefusedDenied
	case r.listens(to):
		return RefusedListener
	case isLocal && !(r.AllowLocal && r.opens(local, address)):
		return RefusedLocal
	case !isLocal && (holds(noHost, address) || address.Is6() && !holds(hosts6, address)):
		return RefusedNoHost
	case holds(r.Reserved, address) && !r.opens(r.Reserved, address):
		return RefusedReserved
	case len(r.Allow) > 0 && !holds(r.Allow, address):
		return RefusedNotListed
	case !isLocal && r.onHost(address) && to.Port() != 80 && to.Port() != 443:
		return RefusedHostPort
	}
	return ""
}

// holds reports whether one of the networks has an address.
func holds(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return plain(network).Contains(address) })
}

// opens reports whether an entry of Allow has an address, and lies within each of
// these networks that has it.
func (r AddressRules) opens(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(r.Allow, func(entry netip.Prefix) bool {
		entry = plain(entry)
		return entry.Contains(address) && !slices.ContainsFunc(networks, func(network netip.Prefix) bool {
			network = plain(network)
			return network.Contains(address) && entry.Bits() < network.Bits()
		})
	})
}

// plain returns the IPv4 form of a network that is written as IPv4-mapped IPv6.
func plain(network netip.Prefix) netip.Prefix {
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network
}

// listens reports whether the process listens at an address.
func (r AddressRules) listens(to netip.AddrPort) bool {
	address := to.Addr()
	return slices.ContainsFunc(r.Listeners, func(listener netip.AddrPort) bool {
		at := listener.Addr().Unmap().WithZone("")
		switch {
		case listener.Port() != to.Port():
			return false
		case at == address, address.IsUnspecified(): // connections to the latter reach the host itself
			return true
		}
		return at.IsUnspecified() && (holds(loopback, address) || r.onHost(address))
	})
}

// onHost reports whether the host of the process has an address.
func (r AddressRules) onHost(address netip.Addr) bool {
	return slices.ContainsFunc(r.Host, func(own netip.Addr) bool { return own.Unmap().WithZone("") == address })
}

// OpensLocal reports whether an entry of AddressRules.Allow would open loopback,
// link-local or metadata addresses if AllowLocal were set.
func OpensLocal(entry netip.Prefix) bool {
	entry = plain(entry)
	return slices.ContainsFunc(local, func(network netip.Prefix) bool {
		return network.Contains(entry.Addr()) && entry.Bits() >= network.Bits()
	})
}

// NameRules decide which names the ACME server does not resolve.
type NameRules struct {
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local; empty outside
	// of clusters.
	ClusterDomain string
	// Allow lists the names and patterns that an endpoint allows. A name that is listed
	// literally is permitted; one that only matches a pattern is still checked.
	Allow []string
}

// JudgeName returns why the ACME server may not connect to a name, or "".
func JudgeName(name string, rules NameRules) Refusal {
	name = folded(name)
	for _, entry := range rules.Allow {
		if folded(entry) == name {
			return ""
		}
	}
	for _, domain := range []string{"localhost", "local", folded(rules.ClusterDomain)} {
		if domain != "" && (name == domain || strings.HasSuffix(name, "."+domain)) {
			return RefusedName
		}
	}
	return ""
}

func folded(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
