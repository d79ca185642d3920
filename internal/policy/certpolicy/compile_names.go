package certpolicy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/names"
)

// kinds of names, as they are called in messages and in the view of requests.
var nameKinds = map[string]string{
	"dns": "dnsNames", "ip": "ipAddresses", "uri": "uris", "email": "emailAddresses", "other": "otherNames",
}

func namePermitted(kind string, required bool, max *int32) *permitted {
	return &permitted{
		at: "certificate.names." + kind, kind: nameKinds[kind], same: equal,
		reason: ReasonNames, absent: ReasonNameRequired, tooMany: ReasonTooManyNames, required: required, max: max,
	}
}

// nameCompiler compiles the conditions on alternative names.
type nameCompiler struct{ *compiler }

// names compiles the conditions on alternative names.
func (c nameCompiler) names(path *field.Path, n *v1alpha1.NameConditions) {
	if n == nil {
		n = &v1alpha1.NameConditions{}
	}
	if n.Required {
		c.add(requireName)
	}
	c.atLeast(path.Child("max"), n.Max, 1)
	if n.Max != nil {
		c.add(limitNames(*n.Max))
	}
	c.list(c.dns(path.Child("dns"), n.DNS), "dns", "DNS names", func(x *content) []string { return x.DNSNames })
	c.list(c.ip(path.Child("ip"), n.IP), "ip", "IP addresses", func(x *content) []string { return x.IPAddresses })
	c.list(c.uri(path.Child("uri"), n.URI), "uri", "URIs", func(x *content) []string { return x.URIs })
	c.list(c.email(path.Child("email"), n.Email), "email", "e-mail addresses", func(x *content) []string { return x.EmailAddresses })
	c.otherNames(path.Child("other"), n.Other)
}

// list adds the conditions of a kind of names. Without any, an Allow policy
// permits no name of the kind.
func (c nameCompiler) list(p *permitted, kind, called string, values func(*content) []string) {
	switch {
	case p != nil:
		c.finish(p)
		c.add(func(e *evaluation) []finding { return p.evaluate(e, values(e.content)) })
	case c.allows():
		c.add(func(e *evaluation) []finding {
			return refuseAll("certificate.names."+kind, ReasonNames, nameKinds[kind], called, values(e.content))
		})
	}
}

// refuseAll refuses every value of a kind that an Allow policy does not
// mention.
func refuseAll(at, reason, kind, called string, values []string) []finding {
	var found []finding
	for i, value := range values {
		where := fmt.Sprintf("%s[%d]", kind, i)
		found = append(found, finding{
			at: at, reason: reason, field: where, value: value,
			message: fmt.Sprintf("%s %s is not permitted: the policy permits no %s", where, quoted(value), called),
		})
	}
	return found
}

func (x *content) countNames() int {
	return len(x.DNSNames) + len(x.IPAddresses) + len(x.URIs) + len(x.EmailAddresses) + len(x.OtherNames)
}

func requireName(e *evaluation) []finding {
	if e.content.countNames() > 0 {
		return nil
	}
	return []finding{{at: "certificate.names.required", reason: ReasonNameRequired, field: "names",
		would: []string{"at least one alternative name"}, message: "the certificate must have an alternative name, such as a DNS name"}}
}

func limitNames(max int32) condition {
	return func(e *evaluation) []finding {
		n := e.content.countNames()
		if n <= int(max) {
			return nil
		}
		return []finding{{at: "certificate.names.max", reason: ReasonTooManyNames, field: "names", value: fmt.Sprint(n),
			would: []string{fmt.Sprintf("at most %d", max)}, message: fmt.Sprintf("the certificate would have %d names, and the policy permits %d", n, max)}}
	}
}

func (c nameCompiler) dns(path *field.Path, d *v1alpha1.DNSConditions) *permitted {
	if d == nil {
		return nil
	}
	c.atLeast(path.Child("max"), d.Max, 1)
	p := namePermitted("dns", d.Required, d.Max)
	p.check, p.same, p.cut, p.wildcards = names.CheckDNSName, strings.EqualFold, names.CutWildcard, d.Wildcards
	p.matchers = append(p.matchers, matchersOf(c.checker, path.Child("zones"), formZone, d.Zones, names.ParseZone)...)
	p.matchers = append(p.matchers, matchersOf(c.checker, path.Child("patterns"), formPattern, d.Patterns, names.ParseDNS)...)
	p.matchers = append(p.matchers, regexps(c.checker, path.Child("matches"), d.Matches, true)...)
	p.expression = c.expression(path.Child("expression"), d.Expression, expression.Texts)
	if x := d.Excluded; x != nil {
		path := path.Child("excluded")
		p.excluded = append(p.excluded, excludedOf(c.checker, path.Child("zones"), formZone, x.Zones, names.ParseZone)...)
		p.excluded = append(p.excluded, excludedOf(c.checker, path.Child("patterns"), formPattern, x.Patterns, names.ParseDNS)...)
	}
	return p
}

func (c nameCompiler) ip(path *field.Path, i *v1alpha1.IPConditions) *permitted {
	if i == nil {
		return nil
	}
	c.atLeast(path.Child("max"), i.Max, 1)
	p := namePermitted("ip", i.Required, i.Max)
	p.same = sameAddress
	p.matchers = networks(c.checker, path.Child("cidrs"), i.CIDRs)
	p.expression = c.expression(path.Child("expression"), i.Expression, expression.Texts)
	if i.Excluded != nil {
		p.excluded = networks(c.checker, path.Child("excluded", "cidrs"), i.Excluded.CIDRs)
	}
	return p
}

func (c nameCompiler) uri(path *field.Path, u *v1alpha1.URIConditions) *permitted {
	if u == nil {
		return nil
	}
	c.atLeast(path.Child("max"), u.Max, 1)
	p := namePermitted("uri", u.Required, u.Max)
	p.check = names.CheckURI
	p.matchers = append(p.matchers, matchersOf(c.checker, path.Child("patterns"), formPattern, u.Patterns, names.ParseURI)...)
	p.matchers = append(p.matchers, regexps(c.checker, path.Child("matches"), u.Matches, false)...)
	p.expression = c.expression(path.Child("expression"), u.Expression, expression.Texts)
	return p
}

func (c nameCompiler) email(path *field.Path, e *v1alpha1.EmailConditions) *permitted {
	if e == nil {
		return nil
	}
	c.atLeast(path.Child("max"), e.Max, 1)
	p := namePermitted("email", e.Required, e.Max)
	p.check, p.same = names.CheckEmail, sameMailbox
	p.matchers = append(p.matchers, matchersOf(c.checker, path.Child("domains"), formDomain, e.Domains, names.ParseDomain)...)
	p.matchers = append(p.matchers, matchersOf(c.checker, path.Child("patterns"), formPattern, e.Patterns, names.ParseEmail)...)
	p.matchers = append(p.matchers, regexps(c.checker, path.Child("matches"), e.Matches, false)...)
	p.expression = c.expression(path.Child("expression"), e.Expression, expression.Texts)
	return p
}

// sameMailbox: only the domain of an address has no case (RFC 5321 section
// 2.4).
func sameMailbox(a, b string) bool {
	i, j := strings.LastIndexByte(a, '@'), strings.LastIndexByte(b, '@')
	return i >= 0 && j >= 0 && a[:i] == b[:j] && strings.EqualFold(a[i:], b[j:])
}

// otherNames compiles the conditions on names of the type otherName: for each
// identifier its own. Other identifiers are refused by Allow policies, and by
// Limits that mention any.
func (c nameCompiler) otherNames(path *field.Path, list []v1alpha1.OIDTexts) {
	known := map[string]bool{}
	for i, one := range list {
		path := path.Index(i)
		c.objectIdentifier(path.Child("oid"), one.OID, known)
		p := oidTexts(c.checker, path, one, fmt.Sprintf("certificate.names.other[%s]", one.OID), nameKinds["other"]+"["+one.OID+"]")
		p.reason, p.absent, p.tooMany = ReasonNames, ReasonNameRequired, ReasonTooManyNames
		c.finish(p)
		c.add(func(e *evaluation) []finding { return p.evaluate(e, e.content.otherValues(one.OID)) })
	}
	if !c.allows() && len(list) == 0 {
		return
	}
	c.add(func(e *evaluation) []finding {
		var texts []string
		for _, other := range e.content.OtherNames {
			if !known[other.Type.String()] {
				texts = append(texts, other.String())
			}
		}
		return refuseAll("certificate.names.other", ReasonNames, nameKinds["other"], "names of this type", texts)
	})
}

func (x *content) otherValues(oid string) []string {
	var values []string
	for _, other := range x.OtherNames {
		if other.Type.String() == oid {
			values = append(values, other.Value)
		}
	}
	return values
}

func oidTexts(c *checker, path *field.Path, o v1alpha1.OIDTexts, at, kind string) *permitted {
	c.atLeast(path.Child("max"), o.Max, 1)
	p := &permitted{at: at, kind: kind, same: equal, required: o.Required, max: o.Max}
	p.matchers = append(p.matchers, matchersOf(c, path.Child("patterns"), formPattern, o.Patterns, names.ParseText)...)
	p.matchers = append(p.matchers, regexps(c, path.Child("matches"), o.Matches, false)...)
	return p
}

// isOID reports whether text is an object identifier in its only form.
func isOID(text string) bool {
	id, err := pki.ParseOID(text)
	return err == nil && id.String() == text
}

// objectIdentifier checks an object identifier, and that it is not among those
// before.
func (c *checker) objectIdentifier(path *field.Path, oid string, before map[string]bool) {
	switch {
	case !isOID(oid):
		c.invalid(path, oid, "must be an object identifier in dotted form, such as 1.3.6.1.4.1.311.20.2.3")
	case before[oid]:
		c.errs = append(c.errs, field.Duplicate(path, oid))
	}
	before[oid] = true
}
