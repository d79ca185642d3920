package cases

import (
	"context"
	"fmt"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// uncovered returns the conditions of a test's policies that were the reason of
// no decision about a case.
func (r *runner) uncovered(ctx context.Context, t *test) ([]Condition, error) {
	reached := map[Condition]bool{}
	set := t.policies.Set()
	name := t.document.File
	for _, c := range t.cases {
		if !r.selects(c) {
			continue
		}
		d, err := c.decide(ctx, set, r.keys)
		if err != nil {
			return nil, err
		}
		for _, at := range reasons(d) {
			at.Test = name
			reached[at] = true
		}
	}
	var missing []Condition
	for _, p := range t.policies.Policies {
		if p.Object.Spec.Mode == v1alpha1.PolicyOff {
			continue
		}
		for _, at := range addresses(&p.Object.Spec) {
			if c := (Condition{Test: name, Policy: p.Object.Name, At: at}); !reached[c] {
				missing = append(missing, c)
			}
		}
	}
	return missing, nil
}

// The addresses of what is no condition on the request.
const (
	atEffect   = "effect"
	atApproval = "approval"
)

// reasons returns the conditions that were reasons of a decision, also of what
// policies in the modes Shadow and Warn would decide.
func reasons(d *v1alpha1.PolicyDecision) []Condition {
	var all []Condition
	for _, v := range d.Violations {
		all = append(all, Condition{Policy: v.Policy, At: v.At})
	}
	for _, s := range d.Shadow {
		for _, v := range s.Violations {
			all = append(all, Condition{Policy: v.Policy, At: v.At})
		}
		if s.Outcome == v1alpha1.OutcomeApprove || s.Outcome == v1alpha1.OutcomeLeave {
			all = append(all, Condition{Policy: s.Policy, At: atEffect})
		}
	}
	for _, c := range d.Considered {
		if at, _, found := strings.Cut(c.Because, ": "); found && !c.Applies {
			all = append(all, Condition{Policy: c.Policy, At: at})
		}
	}
	if d.Policy != nil && (d.Outcome == v1alpha1.OutcomeApprove || d.Outcome == v1alpha1.OutcomeLeave) {
		all = append(all, Condition{Policy: d.Policy.Name, At: atEffect})
	}
	if d.People == nil {
		return all
	}
	for _, requirement := range d.People.Requirements {
		if len(requirement.Missing) > 0 {
			all = append(all, Condition{Policy: requirement.Policy, At: atApproval})
		}
	}
	return all
}

// addresses returns the addresses of a policy's conditions, by which violations
// name them. An Allow policy must have allowed something, a DenyRest denied.
func addresses(s *v1alpha1.CertificatePolicySpec) []string {
	var l addressList
	l.match(&s.Match)
	if s.Certificate != nil {
		l.certificate(s.Certificate)
	}
	for _, rule := range s.Rules {
		l.add(true, "rules[%s]", rule.Name)
	}
	for _, quota := range s.Quotas {
		l.add(true, "quotas[%s]", quota.Name)
	}
	l.add(s.Effect != v1alpha1.PolicyLimit, atEffect)
	l.add(s.Approval != nil && s.Approval.Mode == v1alpha1.ApprovePeople, atApproval)
	return l
}

type addressList []string

func (l *addressList) add(given bool, format string, args ...any) {
	if given {
		*l = append(*l, fmt.Sprintf(format, args...))
	}
}

func (l *addressList) match(m *v1alpha1.PolicyMatch) {
	l.add(len(m.Origins) > 0, "match.origins")
	l.add(m.Requesters != nil, "match.requesters")
	if m.Namespaces != nil {
		l.add(len(m.Namespaces.Names)+len(m.Namespaces.Excluded) > 0, "match.namespaces")
		l.add(m.Namespaces.Selector != nil, "match.namespaces.selector")
	}
	for i := range m.Access {
		l.add(true, "match.access[%d]", i)
	}
	for _, c := range m.Conditions {
		l.add(true, "match.conditions[%s]", c.Name)
	}
}

func (l *addressList) certificate(c *v1alpha1.CertificateConditions) {
	if c.Subject != nil {
		l.subject(c.Subject)
	}
	if c.Names != nil {
		l.names(c.Names)
	}
	if k := c.Keys; k != nil {
		l.add(len(k.Types) > 0 || k.RSA != nil, "certificate.keys")
		l.add(k.Reuse == v1alpha1.KeyReuseRefuse || k.Reuse == v1alpha1.KeyReuseRequire, "certificate.keys.reuse")
	}
	if c.Usages != nil {
		l.add(len(c.Usages.Allowed) > 0, "certificate.usages.allowed")
		l.add(len(c.Usages.Required) > 0, "certificate.usages.required")
	}
	if c.Lifetime != nil {
		l.add(c.Lifetime.Min != nil, "certificate.lifetime.min")
		l.add(c.Lifetime.Max != nil, "certificate.lifetime.max")
	}
	if a := c.Authority; a != nil {
		l.add(!a.Allowed, "certificate.authority.allowed")
		l.add(a.MaxPathLength != nil, "certificate.authority.maxPathLength")
		l.add(a.NameConstraints == v1alpha1.NameConstraintsRequired, "certificate.authority.nameConstraints")
		if p := a.Permitted; p != nil {
			l.add(len(p.DNS) > 0, "certificate.authority.permitted.dns")
			l.add(len(p.IP) > 0, "certificate.authority.permitted.ip")
			l.add(len(p.URI) > 0, "certificate.authority.permitted.uri")
			l.add(len(p.Email) > 0, "certificate.authority.permitted.email")
		}
	}
	l.add(c.Extensions != nil, "certificate.extensions.allowed")
}

func (l *addressList) names(n *v1alpha1.NameConditions) {
	const at = "certificate.names"
	l.add(n.Required, at+".required")
	l.add(n.Max != nil, at+".max")
	if d := n.DNS; d != nil {
		l.values(at+".dns", len(d.Zones)+len(d.Patterns)+len(d.Matches), d.Expression, d.Required, d.Max)
		l.add(d.Excluded != nil, at+".dns.excluded")
	}
	if i := n.IP; i != nil {
		l.values(at+".ip", len(i.CIDRs), i.Expression, i.Required, i.Max)
		l.add(i.Excluded != nil, at+".ip.excluded")
	}
	if u := n.URI; u != nil {
		l.values(at+".uri", len(u.Patterns)+len(u.Matches), u.Expression, u.Required, u.Max)
	}
	if e := n.Email; e != nil {
		l.values(at+".email", len(e.Domains)+len(e.Patterns)+len(e.Matches), e.Expression, e.Required, e.Max)
	}
	l.oids(at+".other", n.Other)
}

// values adds the addresses of the conditions on values of one kind.
func (l *addressList) values(at string, patterns int, expression v1alpha1.CEL, required bool, max *int32) {
	l.add(patterns > 0, "%s", at)
	l.add(expression != "", "%s.expression", at)
	l.add(required, "%s.required", at)
	l.add(max != nil, "%s.max", at)
}

func (l *addressList) oids(at string, list []v1alpha1.OIDTexts) {
	for _, o := range list {
		l.values(fmt.Sprintf("%s[%s]", at, o.OID), len(o.Patterns)+len(o.Matches), "", o.Required, o.Max)
	}
}

func (l *addressList) subject(s *v1alpha1.SubjectConditions) {
	const at = "certificate.subject."
	l.add(s.Empty, at+"empty")
	if c := s.CommonName; c != nil {
		l.values(at+"commonName", len(c.Patterns)+len(c.Matches), c.Expression, c.Required, nil)
		l.add(c.InNames, at+"commonName.inNames")
	}
	if n := s.SerialNumber; n != nil {
		l.values(at+"serialNumber", len(n.Patterns)+len(n.Matches), n.Expression, n.Required, nil)
	}
	for _, one := range []struct {
		name  string
		texts *v1alpha1.Texts
	}{
		{"organizations", s.Organizations}, {"organizationalUnits", s.OrganizationalUnits}, {"countries", s.Countries},
		{"localities", s.Localities}, {"provinces", s.Provinces}, {"streetAddresses", s.StreetAddresses}, {"postalCodes", s.PostalCodes},
	} {
		if t := one.texts; t != nil {
			l.values(at+one.name, len(t.Patterns)+len(t.Matches), t.Expression, t.Required, t.Max)
			l.add(len(t.Exactly) > 0, "%s.exactly", at+one.name)
		}
	}
	l.oids(at+"other", s.Other)
}
