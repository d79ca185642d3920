package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// allowed converts the names and usages that requests may contain.
func (c *converter) allowed(a *approverpolicy.Allowed) {
	if a == nil {
		a = &approverpolicy.Allowed{}
	}
	cert := c.spec.Certificate
	cert.Subject = c.subject(a)
	cert.Names = c.names(a)
	cert.Usages = c.usages(a)
	if a.IsCA != nil && *a.IsCA {
		cert.Authority = &v1alpha1.AuthorityConditions{Allowed: true}
	}
}

func (c *converter) usages(a *approverpolicy.Allowed) *v1alpha1.UsageConditions {
	u := &v1alpha1.UsageConditions{Allowed: []string{}}
	if a.Usages == nil {
		c.lose("spec.allowed.usages: without it, approver-policy approves only requests without usages; in certplane these have the default usages of issuers")
		u.Allowed = []string{"digital signature", "key encipherment"}
		return u
	}
	for _, usage := range *a.Usages {
		u.Allowed = append(u.Allowed, string(usage))
	}
	return u
}

// values are the permitted values of an attribute.
type values struct {
	path, list string
	patterns   []string
	limited    bool
	required   bool
	rules      []approverpolicy.ValidationRule
}

// valuesOf returns false if the attribute must be absent.
func valuesOf(path, list string, v *approverpolicy.AllowedValues) (values, bool) {
	if v == nil || v.Values == nil && len(v.Validations) == 0 || v.Values != nil && len(*v.Values) == 0 {
		return values{}, false
	}
	found := values{path: path, list: list, required: v.Required != nil && *v.Required, rules: v.Validations}
	if v.Values != nil {
		found.limited, found.patterns = true, *v.Values
	}
	return found, true
}

func valueOf(path, list string, v *approverpolicy.AllowedValue) (values, bool) {
	if v == nil {
		return values{}, false
	}
	several := &approverpolicy.AllowedValues{Required: v.Required, Validations: v.Validations}
	if v.Value != nil {
		several.Values = &[]string{*v.Value}
	}
	return valuesOf(path, list, several)
}

// text returns the conditions of an attribute of the subject.
func (c *converter) text(v values) v1alpha1.Text {
	c.rules(v)
	t := v1alpha1.Text{Required: v.required}
	for _, pattern := range v.patterns {
		t.Patterns = append(t.Patterns, literal(pattern))
	}
	return t
}

func (c *converter) subject(a *approverpolicy.Allowed) *v1alpha1.SubjectConditions {
	s := &v1alpha1.SubjectConditions{}
	if v, ok := valueOf("commonName", "request.subject.commonNames", a.CommonName); ok {
		s.CommonName = &v1alpha1.CommonName{Text: c.text(v)}
	}
	if a.Subject == nil {
		return s
	}
	if v, ok := valueOf("subject.serialNumber", "request.subject.serialNumbers", a.Subject.SerialNumber); ok {
		s.SerialNumber = new(c.text(v))
	}
	for _, one := range []struct {
		name string
		of   *approverpolicy.AllowedValues
		into **v1alpha1.Texts
	}{
		{"organizations", a.Subject.Organizations, &s.Organizations}, {"countries", a.Subject.Countries, &s.Countries},
		{"organizationalUnits", a.Subject.OrganizationalUnits, &s.OrganizationalUnits}, {"localities", a.Subject.Localities, &s.Localities},
		{"provinces", a.Subject.Provinces, &s.Provinces}, {"streetAddresses", a.Subject.StreetAddresses, &s.StreetAddresses},
		{"postalCodes", a.Subject.PostalCodes, &s.PostalCodes},
	} {
		if v, ok := valuesOf("subject."+one.name, "request.subject."+one.name, one.of); ok {
			*one.into = &v1alpha1.Texts{Text: c.text(v)}
		}
	}
	s.Other = c.byOID("subject.otherAttributes", "request.subject.other", a.Subject.OtherAttributes)
	return s
}

func (c *converter) byOID(path, list string, all []approverpolicy.AllowedByOID) []v1alpha1.OIDTexts {
	var converted []v1alpha1.OIDTexts
	for _, one := range all {
		path := fmt.Sprintf("%s[%s]", path, one.OID)
		v, ok := valuesOf(path, list+".filter(o, o.oid == "+quoted(one.OID)+").map(o, o.value)", &one.AllowedValues)
		if !ok {
			continue
		}
		c.lose("spec.allowed.%s: certplane compares values that are not UTF8String, IA5String or PrintableString as # and hexadecimal digits", path)
		t := c.text(v)
		converted = append(converted, v1alpha1.OIDTexts{OID: one.OID, Patterns: t.Patterns, Required: t.Required})
	}
	return converted
}

// names converts alternative names. A pattern with a * becomes a rule: in the
// patterns of names it does not cross dots and slashes.
func (c *converter) names(a *approverpolicy.Allowed) *v1alpha1.NameConditions {
	n := &v1alpha1.NameConditions{}
	if v, ok := valuesOf("dnsNames", "request.dnsNames", a.DNSNames); ok {
		c.name(v)
		wildcards := !v.limited || slices.ContainsFunc(v.patterns, func(p string) bool { return strings.HasPrefix(p, "*") })
		n.DNS = &v1alpha1.DNSConditions{Wildcards: wildcards, Required: v.required}
	}
	if v, ok := valuesOf("ipAddresses", "request.ipAddresses", a.IPAddresses); ok {
		c.name(v)
		n.IP = &v1alpha1.IPConditions{Required: v.required}
	}
	if v, ok := valuesOf("uris", "request.uris", a.URIs); ok {
		c.name(v)
		n.URI = &v1alpha1.URIConditions{Required: v.required}
	}
	if v, ok := valuesOf("emailAddresses", "request.emailAddresses", a.EmailAddresses); ok {
		c.name(v)
		n.Email = &v1alpha1.EmailConditions{Required: v.required}
	}
	n.Other = c.byOID("otherNames", "request.otherNames", a.OtherNames)
	return n
}

// name adds the rule that all names match one of the patterns.
func (c *converter) name(v values) {
	c.rules(v)
	if !v.limited || slices.Contains(v.patterns, "*") {
		return
	}
	var texts []string
	for _, pattern := range v.patterns {
		texts = append(texts, regex(pattern))
	}
	c.rule(v, v1alpha1.PolicyRule{
		Expression: v1alpha1.CEL(v.list + ".all(n, n.matches(" + quoted(strings.Join(texts, "|")) + "))"),
		Message:    "must match one of " + strings.Join(v.patterns, ", "),
		Reason:     "NameNotPermitted", Field: v.path,
	})
}
