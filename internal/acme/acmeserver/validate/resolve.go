package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/dnsquery"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
)

const (
	// udpSize is the size of answers over UDP that fits everywhere, in bytes (EDNS0).
	udpSize = 1232
	// maxServers is how many name servers are asked.
	maxServers = 4
	// maxCNAMEs is how many CNAME records are followed.
	maxCNAMEs = 8
)

// resolve returns the addresses that are dialled for a host: one IPv6 and one IPv4
// address, in this order, of those that there are.
func (a *attempt) resolve(ctx context.Context, host, site string) ([]netip.Addr, *failure) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	if refusal := acmeaddress.JudgeName(host, a.cfg.Names); refusal != "" {
		return nil, notPermitted(host, refusal)
	}
	if addresses := a.static(host); len(addresses) > 0 {
		return addresses, nil
	}
	// Servers that never answer for one of the two leave time for the connection.
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout/2)
	defer cancel()
	var six, four answer
	var both sync.WaitGroup
	both.Go(func() { six = a.lookup(ctx, host, dns.TypeAAAA) })
	both.Go(func() { four = a.lookup(ctx, host, dns.TypeA) })
	both.Wait()
	var addresses []netip.Addr
	for _, one := range []answer{six, four} {
		if one.err != nil {
			continue // that there is no answer for one kind does not matter if there are others
		}
		a.record.Resolver = one.server
		if found := dnsquery.Addresses(one.reply, one.name); len(found) > 0 {
			addresses = append(addresses, found[0])
		}
	}
	if len(addresses) > 0 {
		return addresses, nil
	}
	if err := cmp.Or(six.err, four.err); err != nil {
		return nil, lookupFailure(err, site)
	}
	return nil, &failure{kind: rfc8555.ProblemDNS, detail: site + " has no address", cause: fmt.Errorf("%s has no A and no AAAA record", host)}
}

// static returns the addresses of a host in the file of this host, one of each kind,
// if it is this host that resolves names.
func (a *attempt) static(host string) []netip.Addr {
	if len(a.cfg.DNS.Servers) > 0 {
		return nil
	}
	file := cmp.Or(a.cfg.DNS.Hosts, "/etc/hosts")
	found, err := dnsquery.StaticAddresses(file, host)
	if err != nil {
		return nil // as a host does it: name servers may know the name
	}
	var addresses []netip.Addr
	for _, six := range []bool{true, false} {
		if i := slices.IndexFunc(found, func(address netip.Addr) bool { return address.Is4() != six }); i >= 0 {
			addresses = append(addresses, found[i])
		}
	}
	if len(addresses) > 0 {
		a.record.Resolver = file
	}
	return addresses
}

// lookupFailure returns the failure of a name that could not be resolved.
func lookupFailure(err error, site string) *failure {
	var config *hostError
	if errors.As(err, &config) {
		return &failure{kind: rfc8555.ProblemServerInternal, detail: "the server has no name servers", ours: true, cause: err}
	}
	return &failure{kind: rfc8555.ProblemDNS, detail: "the name servers do not resolve " + site, cause: err}
}

// hostError is the error of a host whose name servers are not known.
type hostError struct{ err error }

func (e *hostError) Error() string { return e.err.Error() }

// answer is the answer of name servers about a name.
type answer struct {
	reply *dns.Msg
	// name is the one at the end of all CNAME records.
	name   string
	server string
	err    error
}

// lookup asks for records of a name, and follows CNAME records where servers have
// not.
func (a *attempt) lookup(ctx context.Context, name string, kind uint16) answer {
	path := []string{dns.CanonicalName(name)}
	for {
		at := path[len(path)-1]
		reply, server, err := a.ask(ctx, at, kind)
		if err != nil {
			return answer{err: err}
		}
		more, err := dnsquery.Follow(reply, at)
		if err != nil {
			return answer{err: err}
		}
		for _, next := range more[1:] {
			if slices.Contains(path, next) {
				return answer{err: dnsquery.ErrLoop}
			}
			path = append(path, next)
		}
		if len(path)-1 > maxCNAMEs {
			return answer{err: fmt.Errorf("%s leads through more than %d CNAME records", name, maxCNAMEs)}
		}
		end := path[len(path)-1]
		if end == at || reply.Rcode == dns.RcodeNameError || hasRecords(reply, end, kind) {
			return answer{reply: reply, name: end, server: server}
		}
	}
}

func hasRecords(reply *dns.Msg, name string, kind uint16) bool {
	return slices.ContainsFunc(reply.Answer, func(rr dns.RR) bool {
		return rr.Header().Rrtype == kind && dns.CanonicalName(rr.Header().Name) == name
	})
}

// ask queries the name servers, one after the other, until one of them gives an answer
// that is not a failure. It also returns that server.
func (a *attempt) ask(ctx context.Context, name string, kind uint16) (*dns.Msg, string, error) {
	servers, err := a.servers()
	if err != nil {
		return nil, "", &hostError{err}
	}
	var problems []error
	for _, server := range servers {
		reply, err := a.askServer(ctx, server, dnsquery.Question{Name: name, Type: kind, Recursive: true})
		switch {
		case err == nil && dnsquery.IsAnswer(reply):
			return reply, server, nil
		case err == nil:
			err = fmt.Errorf("%s answers %s for %s", server, dnsquery.Rcode(reply), name)
		}
		if problems = append(problems, err); ctx.Err() != nil {
			break
		}
	}
	return nil, "", errors.Join(problems...)
}

func (a *attempt) askServer(ctx context.Context, server string, asked dnsquery.Question) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.DNS.Timeout)
	defer cancel()
	return a.client.Exchange(ctx, server, asked)
}

func (a *attempt) servers() ([]string, error) {
	servers := slices.Clone(a.cfg.DNS.Servers)
	if len(servers) == 0 {
		var err error
		if servers, err = dnsquery.HostServers(cmp.Or(a.cfg.DNS.ResolvConf, "/etc/resolv.conf")); err != nil {
			return nil, err
		}
		if len(servers) == 0 {
			return nil, errors.New("this host has no name servers")
		}
	} else if a.cfg.DNS.TLS {
		for i := range servers {
			servers[i] = dnsquery.SchemeTLS + servers[i]
		}
	}
	return servers[:min(len(servers), maxServers)], nil
}
