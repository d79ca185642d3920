package selfcheck

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// timeout is how long one look may take, with all redirects, and total how
	// long all looks of a check may.
	timeout = 10 * time.Second
	total   = 25 * time.Second
	// looks is how often each family of addresses is asked. Not every server
	// behind a name must have the answer when the first one has it.
	looks = 3
)

// Network finds and reaches servers. The zero value is the network of the
// system.
type Network struct {
	// Resolver finds addresses; nil means the system's resolver.
	Resolver Resolver
	// Dial opens connections; nil is net.Dialer's. The addresses that it gets
	// are allowed ones.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// lookup returns the addresses of a name or an address, each once.
func (n Network) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	resolver := n.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	// The final dot keeps search domains away.
	found, err := resolver.LookupNetIP(ctx, "ip", dotted(host))
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %s", host, describeLookup(err))
	}
	var unique []netip.Addr
	for _, address := range found {
		if address = address.Unmap(); !slices.Contains(unique, address) {
			unique = append(unique, address)
		}
	}
	if len(unique) == 0 {
		return nil, fmt.Errorf("looking up %s: no addresses", host)
	}
	return unique, nil
}

func dotted(host string) string {
	if host == "" || host[len(host)-1] == '.' {
		return host
	}
	return host + "."
}

// dial connects to an address. first is the address with which the check began,
// or the zero Addr.
func (n Network) dial(ctx context.Context, to netip.AddrPort, first netip.Addr) (net.Conn, error) {
	if err := refusal(to.Addr(), first); err != nil {
		return nil, err
	}
	dial := n.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	connection, err := dial(ctx, "tcp", to.String())
	if err != nil {
		return nil, &dialError{to: to, cause: err}
	}
	return connection, nil
}

// probe looks once, at one address.
type probe func(ctx context.Context, address netip.Addr) error

// view is the result for one family of addresses.
type view struct {
	address netip.Addr
	err     error
}

// views looks at the addresses of a host: IPv6, which many ACME servers prefer,
// and IPv4 at the same time.
func (n Network) views(ctx context.Context, host string, look probe) ([]view, error) {
	ctx, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	found, err := n.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	families := split(found)
	all := make([]view, len(families))
	var wg sync.WaitGroup
	for i, family := range families {
		wg.Go(func() { all[i] = lookAll(ctx, family, look) })
	}
	wg.Wait()
	return all, nil
}

// split returns the IPv6 and the IPv4 addresses, without empty families.
func split(all []netip.Addr) [][]netip.Addr {
	var six, four []netip.Addr
	for _, address := range all {
		if address.Is4() {
			four = append(four, address)
		} else {
			six = append(six, address)
		}
	}
	return slices.DeleteFunc([][]netip.Addr{six, four}, func(f []netip.Addr) bool { return len(f) == 0 })
}

// lookAll looks several times, at several addresses if there are, until one look
// fails.
func lookAll(ctx context.Context, family []netip.Addr, look probe) view {
	slices.SortFunc(family, netip.Addr.Compare) // the same order each time
	for i := range looks {
		address := family[i%len(family)]
		if err := lookOnce(ctx, address, look); err != nil {
			return view{address, err}
		}
	}
	return view{address: family[0]}
}

func lookOnce(ctx context.Context, address netip.Addr, look probe) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return look(ctx, address)
}
