package selfcheck

import (
	"fmt"
	"net/netip"

	"github.com/certplane/certplane/internal/process/linklocal"
	"github.com/certplane/certplane/internal/process/linklocal/ranges"
)

var (
	// thisNetwork reaches the host itself on some systems.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// shared is for carriers (RFC 6598).
	shared = netip.MustParsePrefix("100.64.0.0/10")
)

// isPrivate reports whether an address has no meaning on the Internet.
func isPrivate(address netip.Addr) bool {
	address = ranges.Plain(address)
	return address.IsPrivate() || address.IsLoopback() || shared.Contains(address)
}

// refusal returns why no connection may be opened to an address, or nil. first
// is the address with which a check began; it is the zero Addr for that one.
//
// Names can point anywhere. A check must not reach what serves only this host,
// and a public server must not be able to aim it at a private network.
func refusal(address, first netip.Addr) error {
	real := ranges.Plain(address)
	switch {
	case !real.IsValid() || real.IsUnspecified() || thisNetwork.Contains(real) || real.IsMulticast():
		return fmt.Errorf("%s is not the address of a host", address)
	case linklocal.Contains(real):
		return fmt.Errorf("%s is a link-local or metadata address, which is never contacted", address)
	case first.IsValid() && !isPrivate(first) && isPrivate(real):
		return fmt.Errorf("%s is a private address: redirects from a public address to a private one are not followed", address)
	}
	return nil
}
