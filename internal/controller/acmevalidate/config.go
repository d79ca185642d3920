package acmevalidate

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/validate"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// configOf returns how challenges of an endpoint are validated.
func (r *reconciler) configOf(endpoint *acmeorder.Endpoint) (validate.Config, error) {
	c, cfg := &endpoint.Spec().Challenges, validate.DefaultConfig()
	cfg.Clock, cfg.Targets = r.Clock, r.targets
	cfg.HTTPPorts, cfg.TLSPorts = ports(c.HTTP01.Ports, cfg.HTTPPorts), ports(c.TLSALPN01.Ports, cfg.TLSPorts)
	cfg.RedirectPorts = ports(c.HTTP01.RedirectPorts, cfg.RedirectPorts)
	if n := c.HTTP01.MaxRedirects; n != nil {
		cfg.MaxRedirects = int(*n)
	}
	if d := c.Attempts.Timeout.Duration; d > 0 {
		cfg.Timeout = d
		cfg.DialTimeout = min(cfg.DialTimeout, d)
	}
	cfg.DNS.Servers, cfg.DNS.TLS = c.DNS.Servers, c.DNS.Transport == v1alpha1.AcmeDNSTLS
	if c.DNS.CABundle != "" {
		cfg.DNS.Roots = x509.NewCertPool()
		if !cfg.DNS.Roots.AppendCertsFromPEM([]byte(c.DNS.CABundle)) {
			return cfg, fmt.Errorf("challenges.dns.caBundle of the AcmeEndpoint %s has no certificates", endpoint.Name())
		}
	}
	var err error
	if cfg.Addresses, err = r.addresses(endpoint); err != nil {
		return cfg, err
	}
	cfg.Names = acmeaddress.NameRules{ClusterDomain: r.Network.ClusterDomain}
	if dns := endpoint.Spec().Identifiers.DNS; dns != nil {
		cfg.Names.Allow = dns.Allow
	}
	return cfg, nil
}

// ports returns the ports of an endpoint, or the usual ports if it sets none.
func ports(of []int32, usual []uint16) []uint16 {
	if len(of) == 0 {
		return usual
	}
	var all []uint16
	for _, port := range of {
		all = append(all, uint16(port))
	}
	return all
}

// addresses returns the addresses to which validations for an endpoint may connect.
func (r *reconciler) addresses(endpoint *acmeorder.Endpoint) (acmeaddress.AddressRules, error) {
	networks := endpoint.Spec().Challenges.Networks
	rules := acmeaddress.AddressRules{
		AllowLocal: endpoint.Object().Annotations[v1alpha1.AcmeAllowLocalAnnotation] == "true",
		Listeners:  r.Network.Listeners,
	}
	if reserved := r.reserved.Load(); reserved != nil {
		rules.Reserved = *reserved
	}
	var err error
	if rules.Allow, err = prefixes(networks.Allow); err != nil {
		return rules, fmt.Errorf("challenges.networks.allow of the AcmeEndpoint %s: %w", endpoint.Name(), err)
	}
	if rules.Deny, err = prefixes(networks.Deny); err != nil {
		return rules, fmt.Errorf("challenges.networks.deny of the AcmeEndpoint %s: %w", endpoint.Name(), err)
	}
	rules.Host, err = hostAddresses()
	return rules, err
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// hostAddresses returns the current addresses of this host, except loopback addresses.
func hostAddresses() ([]netip.Addr, error) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("looking up the addresses of this host: %w", err)
	}
	var all []netip.Addr
	for _, a := range interfaces {
		if n, ok := a.(*net.IPNet); ok {
			if address, ok := netip.AddrFromSlice(n.IP); ok && !address.IsLoopback() {
				all = append(all, address.Unmap())
			}
		}
	}
	return all, nil
}
