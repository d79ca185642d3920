//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

package resolver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/dnsquery"
)

// The texts of the errors in this file and in cname.go are those of cert-manager:
// users search for them.

// Zone returns the zone of a name, with a final dot: the first name with an SOA
// record, from the name itself upwards.
func (r *Resolver) Zone(ctx context.Context, fqdn string) (string, error) {
	fqdn = strings.ToLower(fqdn)
	for _, offset := range dns.Split(fqdn) {
		name := fqdn[offset:]
		zone, err := r.zoneAt(ctx, name)
		if zone != "" || err != nil {
			return zone, err
		}
	}
	return "", fmt.Errorf("Could not find the SOA record in the DNS tree for the domain '%s' using nameservers %v", fqdn, r.Nameservers())
}

// zoneAt returns the zone in the SOA record of exactly one name, or "" if it
// has none.
func (r *Resolver) zoneAt(ctx context.Context, name string) (string, error) {
	if zone, ok := r.zones.get(name); ok {
		return zone, nil
	}
	reply, err := r.ask(ctx, name, dns.TypeSOA)
	switch {
	case err != nil:
		return "", err
	case !dnsquery.IsAnswer(reply):
		return "", fmt.Errorf("When querying the SOA record for the domain '%s' using nameservers %v, rcode was expected to be 'NOERROR' or 'NXDOMAIN', but got '%s'",
			name, r.Nameservers(), dnsquery.Rcode(reply))
	case reply.Rcode == dns.RcodeNameError || slices.ContainsFunc(reply.Answer, isCNAME):
		return "", nil
	}
	for _, rr := range reply.Answer {
		if soa, ok := rr.(*dns.SOA); ok && dns.IsSubDomain(soa.Hdr.Name, name) {
			zone := strings.ToLower(soa.Hdr.Name)
			r.zones.put(name, zone, soa.Hdr.Ttl)
			return zone, nil
		}
	}
	return "", nil
}

func isCNAME(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeCNAME }

// authorities returns the host names of the authoritative servers of a name,
// sorted and in lower case.
func (r *Resolver) authorities(ctx context.Context, fqdn string) ([]string, error) {
	zone, err := r.Zone(ctx, fqdn)
	if err != nil {
		return nil, fmt.Errorf("Could not determine the zone for %q: %w", fqdn, err)
	}
	if hosts, ok := r.hosts.get(zone); ok {
		return hosts, nil
	}
	reply, err := r.ask(ctx, zone, dns.TypeNS)
	if err != nil {
		return nil, err
	}
	hosts, ttl := nameserversIn(reply, zone)
	if len(hosts) == 0 {
		return nil, fmt.Errorf("Could not determine authoritative nameservers for %q", fqdn)
	}
	r.hosts.put(zone, hosts, ttl)
	return hosts, nil
}

// nameserversIn returns the servers of a zone, at most maxServers, and the
// smallest TTL.
func nameserversIn(reply *dns.Msg, zone string) (hosts []string, ttl uint32) {
	for _, rr := range reply.Answer {
		ns, ok := rr.(*dns.NS)
		if !ok || !strings.EqualFold(ns.Hdr.Name, zone) {
			continue
		}
		if len(hosts) == 0 || ns.Hdr.Ttl < ttl {
			ttl = ns.Hdr.Ttl
		}
		hosts = append(hosts, strings.ToLower(ns.Ns))
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	return hosts[:min(len(hosts), maxServers)], ttl
}
