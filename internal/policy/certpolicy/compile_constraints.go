package certpolicy

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/names"
)

// constraints compiles the names within which the name constraints of a CA must
// lie.
func (c termCompiler) constraints(path *field.Path, p *v1alpha1.PermittedNames) {
	for _, one := range []struct {
		name   string
		values []string
	}{{"dns", p.DNS}, {"uri", p.URI}, {"email", p.Email}} {
		for i, value := range one.values {
			domain := value[strings.LastIndexByte(value, '@')+1:]
			if err := names.CheckDNSName(domain); err != nil {
				c.invalid(path.Child(one.name).Index(i), value, err.Error())
			}
		}
	}
	for i, value := range p.IP {
		if _, err := names.ParseCIDR(value); err != nil {
			c.invalid(path.Child("ip").Index(i), value, err.Error())
		}
	}
	permitted := v1alpha1.PermittedNames{DNS: inOrder(p.DNS), IP: inOrder(p.IP), URI: inOrder(p.URI), Email: inOrder(p.Email)}
	c.add(func(e *evaluation) []finding {
		if !e.content.IsCA {
			return nil
		}
		return outside(e.content.constraints, &permitted)
	})
}

// outside returns what the name constraints of a CA permit beyond p. Of a kind
// of name that p has, they must permit something: a CA without constraints on a
// kind may issue for all of it.
func outside(c *pki.NameConstraints, p *v1alpha1.PermittedNames) []finding {
	if c == nil {
		c = &pki.NameConstraints{}
	}
	var networks []string
	for _, network := range c.Permitted.IPRanges {
		networks = append(networks, network.String())
	}
	var found []finding
	for _, kind := range []struct {
		name      string
		asked     []string
		permitted []string
		within    func(asked, permitted string) bool
	}{
		{"dns", c.Permitted.DNSDomains, p.DNS, domainWithin},
		{"ip", networks, p.IP, networkWithin},
		{"uri", c.Permitted.URIDomains, p.URI, domainWithin},
		{"email", c.Permitted.EmailAddresses, p.Email, mailWithin},
	} {
		f := finding{at: "certificate.authority.permitted." + kind.name, reason: ReasonCA, would: kind.permitted, field: "nameConstraints.permitted." + kind.name}
		if len(kind.asked) == 0 && len(kind.permitted) > 0 {
			f.message = fmt.Sprintf("the CA could issue for every name of the kind %s: it must have name constraints within %s", kind.name, enumerated(kind.permitted))
			found = append(found, f)
		}
		for _, asked := range kind.asked {
			if !anyWithin(asked, kind.permitted, kind.within) {
				f.value = asked
				f.message = fmt.Sprintf("the CA could issue for %s, and the policy permits %s", quoted(asked), orNothing(kind.permitted))
				found = append(found, f)
			}
		}
	}
	return found
}

func anyWithin(asked string, permitted []string, within func(asked, permitted string) bool) bool {
	for _, one := range permitted {
		if within(asked, one) {
			return true
		}
	}
	return false
}

func orNothing(texts []string) string {
	if len(texts) == 0 {
		return "none of this kind"
	}
	return enumerated(texts)
}

// domainWithin: a constraint with a leading dot is about the names below (RFC
// 5280 section 4.2.1.10).
func domainWithin(asked, permitted string) bool {
	return names.InZone(strings.TrimPrefix(asked, "."), permitted)
}

// mailWithin: a constraint is a mailbox, a host, or a domain with a leading dot.
func mailWithin(asked, permitted string) bool {
	if strings.Contains(permitted, "@") {
		return sameMailbox(asked, permitted)
	}
	return domainWithin(asked[strings.LastIndexByte(asked, '@')+1:], permitted)
}

func networkWithin(asked, permitted string) bool {
	outer, err := netip.ParsePrefix(permitted)
	if err != nil {
		return false
	}
	_, network, err := net.ParseCIDR(asked)
	if err != nil {
		return false
	}
	inner, err := netip.ParsePrefix(network.String())
	return err == nil && inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}
