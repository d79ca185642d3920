package certpolicy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/names"
)

// The attributes of subjects with their own conditions (RFC 4519).
const (
	oidCommonName   = "2.5.4.3"
	oidSerialNumber = "2.5.4.5"
)

// listedAttributes are the attributes that may have several values.
var listedAttributes = []struct {
	name, oid string
	of        func(*v1alpha1.SubjectConditions) *v1alpha1.Texts
}{
	{"organizations", "2.5.4.10", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.Organizations }},
	{"organizationalUnits", "2.5.4.11", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.OrganizationalUnits }},
	{"countries", "2.5.4.6", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.Countries }},
	{"localities", "2.5.4.7", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.Localities }},
	{"provinces", "2.5.4.8", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.Provinces }},
	{"streetAddresses", "2.5.4.9", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.StreetAddresses }},
	{"postalCodes", "2.5.4.17", func(s *v1alpha1.SubjectConditions) *v1alpha1.Texts { return s.PostalCodes }},
}

// isListed reports whether an attribute may have several values.
func isListed(oid string) bool {
	for _, listed := range listedAttributes {
		if listed.oid == oid {
			return true
		}
	}
	return false
}

// subjectCompiler compiles the conditions on the subject.
type subjectCompiler struct{ *compiler }

// subject compiles the conditions on the subject.
func (c subjectCompiler) subject(path *field.Path, s *v1alpha1.SubjectConditions) {
	if s == nil && !c.allows() {
		return
	}
	if s == nil {
		s = &v1alpha1.SubjectConditions{}
	}
	c.add(refuseGroups)
	if s.Empty {
		c.add(requireEmptySubject)
	}
	known := map[string]bool{}
	if s.CommonName != nil {
		known[oidCommonName] = true
		c.commonName(path.Child("commonName"), s.CommonName)
	}
	if s.SerialNumber != nil {
		known[oidSerialNumber] = true
		c.attribute(c.text(path.Child("serialNumber"), s.SerialNumber, "serialNumber", true), oidSerialNumber)
	}
	for _, listed := range listedAttributes {
		if texts := listed.of(s); texts != nil {
			known[listed.oid] = true
			c.atLeast(path.Child(listed.name, "max"), texts.Max, 1)
			p := c.text(path.Child(listed.name), &texts.Text, listed.name, false)
			p.max = texts.Max
			if texts.Exactly != nil {
				p.exactly = append([]string{}, inOrder(texts.Exactly)...) // none is a condition, too
			}
			c.attribute(p, listed.oid)
		}
	}
	c.otherAttributes(path.Child("other"), s.Other, known)
	if c.allows() {
		c.add(func(e *evaluation) []finding { return refuseAttributes(e, known) })
	}
}

// attribute adds the condition on the values of an attribute.
func (c subjectCompiler) attribute(p *permitted, oid string) {
	c.finish(p)
	c.add(func(e *evaluation) []finding {
		values := e.content.values(oid)
		if !p.one || len(values) < 2 {
			return p.evaluate(e, values)
		}
		return []finding{{at: p.at, reason: ReasonSubject, field: p.kind, value: strings.Join(values, ","),
			message: fmt.Sprintf("%s has %d values, and there may be one", p.kind, len(values))}}
	})
}

func (c subjectCompiler) text(path *field.Path, t *v1alpha1.Text, name string, one bool) *permitted {
	p := &permitted{
		at: "certificate.subject." + name, kind: "subject." + name, same: equal, one: one,
		reason: ReasonSubject, absent: ReasonAttributeRequired, tooMany: ReasonSubject, required: t.Required,
	}
	p.matchers = append(p.matchers, matchersOf(c.checker, path.Child("patterns"), formPattern, t.Patterns, names.ParseText)...)
	p.matchers = append(p.matchers, regexps(c.checker, path.Child("matches"), t.Matches, false)...)
	p.expression = c.expression(path.Child("expression"), t.Expression, expression.Texts)
	return p
}

func (c subjectCompiler) commonName(path *field.Path, cn *v1alpha1.CommonName) {
	c.attribute(c.text(path, &cn.Text, "commonName", true), oidCommonName)
	if cn.InNames {
		c.add(requireInNames)
	}
}

// requireInNames: old clients take the common name for a DNS name.
func requireInNames(e *evaluation) []finding {
	var found []finding
	for _, name := range e.content.values(oidCommonName) {
		if slices.ContainsFunc(e.content.DNSNames, func(dns string) bool { return strings.EqualFold(dns, name) }) ||
			slices.ContainsFunc(e.content.IPAddresses, func(ip string) bool { return sameAddress(ip, name) }) {
			continue
		}
		found = append(found, finding{at: "certificate.subject.commonName.inNames", reason: ReasonSubject, field: "subject.commonName", value: name,
			would:   examples(append(slices.Clone(e.content.DNSNames), e.content.IPAddresses...)),
			message: fmt.Sprintf("subject.commonName %s is none of the DNS names and IP addresses", quoted(name))})
	}
	return found
}

func requireEmptySubject(e *evaluation) []finding {
	if len(e.content.Subject) == 0 {
		return nil
	}
	return []finding{{at: "certificate.subject.empty", reason: ReasonSubject, field: "subject", value: e.content.Subject[0].Value,
		would: []string{"an empty subject"}, message: "the subject must be empty"}}
}

// refuseGroups refuses subjects that programs print and compare differently.
func refuseGroups(e *evaluation) []finding {
	if !e.content.grouped {
		return nil
	}
	return []finding{{at: "certificate.subject", reason: ReasonSubject, field: "subject",
		message: "the subject has a relative distinguished name with several attributes: give each attribute its own"}}
}

func (c subjectCompiler) otherAttributes(path *field.Path, list []v1alpha1.OIDTexts, known map[string]bool) {
	for i, one := range list {
		path := path.Index(i)
		if one.OID == oidCommonName || one.OID == oidSerialNumber || isListed(one.OID) {
			c.invalid(path.Child("oid"), one.OID, "has its own field in subject")
			continue
		}
		c.objectIdentifier(path.Child("oid"), one.OID, known)
		p := oidTexts(c.checker, path, one, fmt.Sprintf("certificate.subject.other[%s]", one.OID), "subject.other["+one.OID+"]")
		p.reason, p.absent, p.tooMany = ReasonSubject, ReasonAttributeRequired, ReasonSubject
		c.attribute(p, one.OID)
	}
}

// refuseAttributes refuses the attributes that an Allow policy does not
// mention.
func refuseAttributes(e *evaluation, known map[string]bool) []finding {
	var found []finding
	for _, a := range e.content.Subject {
		if known[a.OID] {
			continue
		}
		name := attributeName(a.OID)
		found = append(found, finding{at: "certificate.subject." + name, reason: ReasonSubject, field: "subject." + name, value: a.Value,
			message: fmt.Sprintf("subject.%s %s is not permitted: the policy permits no such attribute", name, quoted(a.Value))})
	}
	return found
}

func attributeName(oid string) string {
	switch oid {
	case oidCommonName:
		return "commonName"
	case oidSerialNumber:
		return "serialNumber"
	}
	for _, listed := range listedAttributes {
		if listed.oid == oid {
			return listed.name
		}
	}
	return "other[" + oid + "]"
}
