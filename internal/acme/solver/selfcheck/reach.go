package selfcheck

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
)

// Reached is the result for one address of a host.
type Reached struct {
	Address netip.Addr
	// Private is set for addresses that have no meaning on the Internet.
	Private bool
	// Status is the code of the HTTP response; 0 without one.
	Status int
	// Via is where redirects have led to; empty without redirects.
	Via string
	// Err is why no connection was opened, or no response came.
	Err error
}

// maxReach is how many addresses of a host are tried.
const maxReach = 8

// Reach asks all addresses of a host by HTTP for a file of that name below Path, and
// follows redirects as ACME servers do. It returns an error only if the lookup fails.
func (h HTTP) Reach(ctx context.Context, host, file string) ([]Reached, error) {
	start := &url.URL{Scheme: "http", Host: host, Path: Path + file}
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
		start.Host = "[" + host + "]"
	}
	return h.Network.reach(ctx, host, func(ctx context.Context, r *Reached) {
		answer, via, err := client{HTTP: h, first: r.Address}.follow(ctx, start)
		if err != nil {
			r.Err = err
			return
		}
		_ = answer.Body.Close() // nothing of it is used
		r.Status, r.Via = answer.StatusCode, via
	})
}

// Reach connects to a port of all addresses of a host. It returns an error only if the
// lookup fails.
func (n Network) Reach(ctx context.Context, host string, port uint16) ([]Reached, error) {
	return n.reach(ctx, host, func(ctx context.Context, r *Reached) {
		connection, err := n.dial(ctx, netip.AddrPortFrom(r.Address, port), netip.Addr{})
		if err != nil {
			r.Err = err
			return
		}
		_ = connection.Close() // nothing was sent
	})
}

func (n Network) reach(ctx context.Context, host string, look func(context.Context, *Reached)) ([]Reached, error) {
	ctx, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	if _, err := netip.ParseAddr(host); err != nil && !names.MatchString(host) {
		return nil, fmt.Errorf("%s is not a valid DNS name", shown(host))
	}
	found, err := n.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	all := make([]Reached, min(len(found), maxReach))
	var wg sync.WaitGroup
	for i := range all {
		all[i] = Reached{Address: found[i], Private: isPrivate(found[i])}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			look(ctx, &all[i])
		})
	}
	wg.Wait()
	return all, nil
}
