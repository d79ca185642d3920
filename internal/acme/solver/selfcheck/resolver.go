package selfcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/dnsquery"
)

// serverTimeout is how long one nameserver may take for one question.
const serverTimeout = 3 * time.Second

// Resolver finds the addresses of a name. A name without addresses is an error.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// NewResolver returns a resolver that asks these nameservers in turn, or the system's
// resolver if the list is empty.
func NewResolver(nameservers []string) Resolver {
	if len(nameservers) == 0 {
		return net.DefaultResolver
	}
	return servers(nameservers)
}

// servers are nameservers, ADDRESS:PORT. Unlike the system's resolver, this one does not
// read the hosts file, where a host often has another address than in DNS.
type servers []string

// LookupNetIP implements Resolver. network is "ip". If the lookup of one kind of addresses
// fails, the other kind is enough, as for ACME servers.
func (s servers) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	var failed error
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		found, err := s.lookup(ctx, host, kind)
		all, failed = append(all, found...), cmp.Or(failed, err)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case failed != nil:
		return nil, failed
	}
	return nil, &net.DNSError{Err: "no A or AAAA records", Name: host, IsNotFound: true}
}

// lookup returns the answer of the first server that has one.
func (s servers) lookup(ctx context.Context, host string, kind uint16) ([]netip.Addr, error) {
	var failed []string
	for _, server := range s {
		answer, err := ask(ctx, server, host, kind)
		if err == nil {
			return dnsquery.Addresses(answer, ""), nil
		}
		var missing *net.DNSError
		if errors.As(err, &missing) && missing.IsNotFound {
			return nil, err
		}
		failed = append(failed, err.Error())
	}
	return nil, errors.New(strings.Join(failed, "; "))
}

func ask(ctx context.Context, server, host string, kind uint16) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	client := dnsquery.NewClient(dnsquery.Config{Timeout: serverTimeout, UDPSize: 1232})
	answer, err := client.Exchange(ctx, server, dnsquery.Question{Name: dns.Fqdn(host), Type: kind, Recursive: true})
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the nameserver %s: %s", server, Describe(err))
	case answer.Rcode == dns.RcodeNameError:
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: server, IsNotFound: true}
	case answer.Rcode != dns.RcodeSuccess:
		return nil, fmt.Errorf("the nameserver %s answers %s", server, dnsquery.Rcode(answer))
	}
	return answer, nil
}
