package resolver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/dnsquery"
)

// maxAddresses is how many addresses of one server are asked, of each family.
const maxAddresses = 2

// View is the answer of one server about the TXT records of a name.
type View struct {
	// Server is the host name or the address of the server, with its port.
	Server string
	// Values are the values of the records. The strings of one record are joined.
	Values []string
	// Err is why the server could not be asked, or has no answer. Values may hold
	// something nevertheless.
	Err error
}

// AuthoritativeTXT asks all authoritative servers of a name for its TXT records,
// at the same time. The views are in the order of the servers' names.
func (r *Resolver) AuthoritativeTXT(ctx context.Context, fqdn string) ([]View, error) {
	hosts, err := r.authorities(ctx, fqdn)
	if err != nil {
		return nil, err
	}
	return each(hosts, func(host string) View { return r.askHost(ctx, host, fqdn) }), nil
}

// RecursiveTXT asks all recursive name servers, at the same time.
func (r *Resolver) RecursiveTXT(ctx context.Context, fqdn string) []View {
	return each(r.Nameservers(), func(server string) View {
		values, err := r.txt(ctx, server, server, dnsquery.Question{Name: fqdn, Type: dns.TypeTXT, Recursive: true})
		return View{Server: server, Values: values, Err: err}
	})
}

func each(servers []string, look func(string) View) []View {
	views := make([]View, len(servers))
	var group sync.WaitGroup
	for i, server := range servers {
		group.Go(func() { views[i] = look(server) })
	}
	group.Wait()
	return views
}

// askHost asks an authoritative server at all its addresses at the same time.
// The first that answers decides: one family may be broken, here or there.
func (r *Resolver) askHost(ctx context.Context, host, fqdn string) View {
	view := View{Server: net.JoinHostPort(host, r.cfg.Port)}
	addresses, err := r.addresses(ctx, host)
	if err != nil {
		view.Err = err
		return view
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan View, len(addresses))
	for _, address := range addresses {
		go func() {
			at := net.JoinHostPort(address.String(), r.cfg.Port)
			values, err := r.txt(ctx, at, view.Server, dnsquery.Question{Name: fqdn, Type: dns.TypeTXT})
			answers <- View{Server: view.Server, Values: values, Err: err}
		}()
	}
	return firstAnswer(answers, len(addresses))
}

// firstAnswer returns the first view without an error, else that with values,
// else the last one.
func firstAnswer(answers <-chan View, count int) (best View) {
	for range count {
		view := <-answers
		if view.Err == nil {
			return view
		}
		if len(best.Values) == 0 {
			best = view
		}
	}
	return best
}

// addresses returns the addresses of a host from the recursive name servers.
func (r *Resolver) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	var problems []error
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		reply, err := r.ask(ctx, host, kind)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found := dnsquery.Addresses(reply, "")
		addresses = append(addresses, found[:min(len(found), maxAddresses)]...)
	}
	if len(addresses) == 0 {
		return nil, joined(append([]error{fmt.Errorf("%s has no address", host)}, problems...))
	}
	return addresses, nil
}

// txt asks the server at an address for TXT records. name is the name of the server, for
// errors.
func (r *Resolver) txt(ctx context.Context, at, name string, asked dnsquery.Question) ([]string, error) {
	reply, err := r.client.Exchange(ctx, at, asked)
	switch {
	case err != nil:
		return nil, err
	case !dnsquery.IsAnswer(reply):
		return nil, fmt.Errorf("NS %s returned %s for %s", name, dnsquery.Rcode(reply), asked.Name)
	}
	values := valuesIn(reply, asked.Name)
	if !asked.Recursive && !reply.Authoritative {
		return values, fmt.Errorf("NS %s is not authoritative for %s", name, asked.Name)
	}
	return values, nil
}

// valuesIn returns the values of the TXT records of a name. A recursive server
// may have followed CNAMEs.
func valuesIn(reply *dns.Msg, name string) []string {
	path, err := dnsquery.Follow(reply, name)
	if err != nil {
		return nil
	}
	return dnsquery.TXT(reply, path[len(path)-1])
}
