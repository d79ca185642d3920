// Package convert converts CertificateRequestPolicies of approver-policy to
// CertificatePolicies.
package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// Converted is the result of converting a policy.
type Converted struct {
	// Policy is nil if no policy is equivalent.
	Policy *v1alpha1.CertificatePolicy
	// Lost lists fields without an equivalent. If omitting one would make the policy
	// permit more, the new policy permits nothing instead.
	Lost []string
}

type converter struct {
	spec v1alpha1.CertificatePolicySpec
	lost []string
}

// Policy converts one policy.
func Policy(p *approverpolicy.CertificateRequestPolicy) Converted {
	c := &converter{}
	if len(p.Spec.Plugins) > 0 {
		names := slices.Sorted(maps.Keys(p.Spec.Plugins))
		return Converted{Lost: []string{"spec.plugins: certplane has no plugins: " + strings.Join(names, ", ")}}
	}
	c.match(p)
	c.spec.Effect, c.spec.Mode = v1alpha1.PolicyAllow, v1alpha1.PolicyEnforce
	if permitsNothing(p.Spec.Allowed) {
		c.spec.Effect = v1alpha1.PolicyDenyRest
	} else {
		c.spec.Certificate = &v1alpha1.CertificateConditions{}
		c.allowed(p.Spec.Allowed)
		c.constraints(p.Spec.Constraints)
	}
	converted := &v1alpha1.CertificatePolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CertificatePolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: c.spec,
	}
	if _, errs, _ := certpolicy.Compile(converted); len(errs) > 0 {
		for _, err := range errs {
			c.lost = append(c.lost, "the policy below is not valid: "+err.Error())
		}
	}
	return Converted{converted, c.lost}
}

func (c *converter) lose(format string, args ...any) {
	c.lost = append(c.lost, fmt.Sprintf(format, args...))
}

// permitsNothing reports whether a policy can permit no request, which denies by default:
// it requires a name and permits no value of it.
func permitsNothing(a *approverpolicy.Allowed) bool {
	if a == nil {
		return false
	}
	lists := []*approverpolicy.AllowedValues{a.DNSNames, a.IPAddresses, a.URIs, a.EmailAddresses}
	if s := a.Subject; s != nil {
		lists = append(lists, s.Organizations, s.Countries, s.OrganizationalUnits, s.Localities, s.Provinces, s.StreetAddresses, s.PostalCodes)
	}
	return slices.ContainsFunc(lists, func(v *approverpolicy.AllowedValues) bool {
		return v != nil && v.Required != nil && *v.Required && v.Values != nil && len(*v.Values) == 0
	})
}

// match converts the selector. Roles that let requesters use the policy keep working.
func (c *converter) match(p *approverpolicy.CertificateRequestPolicy) {
	m := &c.spec.Match
	m.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateRequests}
	m.Signers = []string{"*"}
	m.Access = []v1alpha1.AccessMatch{{Verb: "use", Group: approverpolicy.GroupName, Resource: approverpolicy.Resource, Name: p.Name}}
	if i := p.Spec.Selector.IssuerRef; i != nil {
		m.Signers = signersOf(i)
		for _, part := range []struct {
			name, value string
			pattern     *string
		}{
			{"issuer-name", "request.signer.issuer", i.Name}, {"issuer-kind", "request.signer.kind", i.Kind},
			{"issuer-group", "request.signer.name.split('/')[0]", i.Group},
		} {
			if part.pattern == nil || *part.pattern == "*" {
				continue
			}
			text := regex(*part.pattern)
			if part.name == "issuer-group" { // after the plural of the kind
				text = `^[^.]+\.` + strings.TrimPrefix(text, "^")
			}
			m.Conditions = append(m.Conditions, v1alpha1.MatchCondition{Name: part.name, Expression: v1alpha1.CEL(part.value + ".matches(" + quoted(text) + ")")})
		}
	}
	n := p.Spec.Selector.Namespace
	if n == nil || len(n.MatchNames) == 0 && len(n.MatchLabels) == 0 {
		return
	}
	m.Namespaces = &v1alpha1.NamespaceMatch{Names: slices.Clone(n.MatchNames)}
	if len(n.MatchLabels) > 0 {
		m.Namespaces.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(n.MatchLabels)}
	}
}

// signersOf returns the signers of an issuer with a full name: lookups of the policy are
// then faster, and its author needs fewer rights. The conditions select the rest.
func signersOf(i *approverpolicy.IssuerSelector) []string {
	if i.Name == nil || i.Kind == nil || *i.Name == "" || i.Group != nil && *i.Group != "cert-manager.io" {
		return []string{"*"}
	}
	switch *i.Kind {
	case "ClusterIssuer":
		return []string{"clusterissuers.cert-manager.io/" + *i.Name}
	case "Issuer":
		return []string{"issuers.cert-manager.io/*." + *i.Name}
	}
	return []string{"*"}
}

// regex returns the regular expression of a pattern in which * matches any characters.
func regex(pattern string) string {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return "^" + strings.Join(parts, ".*") + "$"
}

// quoted returns a text as CEL.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(text) + "'"
}

// literal escapes the braces in a pattern, so that they are not variables.
func literal(pattern string) string {
	return strings.NewReplacer("{", "{{", "}", "}}").Replace(pattern)
}
