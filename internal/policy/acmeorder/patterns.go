package acmeorder

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/names"
)

// namePattern is a name, or with below all names below it, at any depth.
type namePattern struct {
	name  string
	below bool
}

func parsePattern(text string) (namePattern, error) {
	name, below := names.CutWildcard(strings.ToLower(text))
	if err := names.CheckDNSName(name); err != nil {
		return namePattern{}, err
	}
	return namePattern{name, below}, nil
}

// has reports whether the pattern has a name. name is in lower case, of wildcards
// without the leading "*.": then it has to have all names that the wildcard stands
// for.
func (p namePattern) has(name string, wildcard bool) bool {
	switch {
	case !p.below:
		return !wildcard && name == p.name
	case wildcard:
		return name == p.name || strings.HasSuffix(name, "."+p.name)
	}
	return strings.HasSuffix(name, "."+p.name)
}

// touches reports whether the pattern has one of the names.
func (p namePattern) touches(name string, wildcard bool) bool {
	if p.below || !wildcard {
		return p.has(name, wildcard)
	}
	_, parent, _ := strings.Cut(p.name, ".")
	return parent == name
}

type namePatterns []namePattern

func (l namePatterns) has(name string, wildcard bool) bool {
	return slices.ContainsFunc(l, func(p namePattern) bool { return p.has(name, wildcard) })
}

func (l namePatterns) touches(name string, wildcard bool) bool {
	return slices.ContainsFunc(l, func(p namePattern) bool { return p.touches(name, wildcard) })
}

func parsePatterns(texts []string, path *field.Path, errs *field.ErrorList) namePatterns {
	var list namePatterns
	for i, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			*errs = append(*errs, field.Invalid(path.Index(i), text, err.Error()))
			continue
		}
		list = append(list, p)
	}
	return list
}

// networks are addresses and networks.
type networks []netip.Prefix

func (l networks) has(address netip.Addr) bool {
	return slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Contains(address) })
}

func parseNetworks(texts []string, path *field.Path, errs *field.ErrorList) networks {
	var list networks
	for i, text := range texts {
		p, err := parseNetwork(text)
		if err != nil {
			*errs = append(*errs, field.Invalid(path.Index(i), text, err.Error()))
			continue
		}
		list = append(list, p)
	}
	return list
}

func parseNetwork(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" || address.Is4In6() {
			return netip.Prefix{}, errors.New("is not an IP address")
		}
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("is not a network such as 10.0.0.0/8")
	}
	if p.Masked() != p {
		return netip.Prefix{}, errors.New("has bits after the prefix: write " + p.Masked().String())
	}
	return p, nil
}

// identifierSet is a set of names and addresses, as endpoints and external keys
// declare it.
type identifierSet struct {
	dnsAllow, dnsDeny namePatterns
	wildcards         bool
	ipAllow, ipDeny   networks
}

func compileSet(dns *v1alpha1.AcmeDNSNames, ip *v1alpha1.AcmeAddresses, path *field.Path, errs *field.ErrorList) identifierSet {
	var s identifierSet
	if dns != nil {
		at := path.Child("dns")
		s.dnsAllow, s.dnsDeny = parsePatterns(dns.Allow, at.Child("allow"), errs), parsePatterns(dns.Deny, at.Child("deny"), errs)
		s.wildcards = dns.Wildcards != v1alpha1.AcmeWildcardsDeny
	}
	if ip != nil {
		at := path.Child("ip")
		s.ipAllow, s.ipDeny = parseNetworks(ip.Allow, at.Child("allow"), errs), parseNetworks(ip.Deny, at.Child("deny"), errs)
	}
	return s
}

// has reports whether an identifier is in the set. Wildcards are judged apart.
func (s *identifierSet) has(id identifier) bool {
	if id.address.IsValid() {
		return s.ipAllow.has(id.address) && !s.ipDeny.has(id.address)
	}
	return s.dnsAllow.has(id.name, id.wildcard) && !s.dnsDeny.touches(id.name, id.wildcard)
}
