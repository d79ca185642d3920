package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// compiler compiles the expressions of one profile and collects their errors.
type compiler struct {
	env  *cel.Env
	pods bool
	// podSpec is set if an expression may read a pod's spec.
	podSpec bool
	// services is set if an expression may read services.
	services bool
	errs     field.ErrorList
}

func newCompiler(kinds []v1alpha1.RequestKind) *compiler {
	c := &compiler{pods: slices.Contains(kinds, v1alpha1.PodCertificateRequests)}
	var err error
	if c.env, err = environmentFor(kinds); err != nil {
		c.errs = field.ErrorList{field.InternalError(nil, fmt.Errorf("making the environment of expressions: %w", err))}
	}
	return c
}

// expression compiles text. An empty text yields nothing.
func (c *compiler) expression(text v1alpha1.CEL, path *field.Path, yields result) *expression {
	switch {
	case text == "" || c.env == nil:
		return nil
	case len(text) > maxExpression:
		c.errs = append(c.errs, field.TooLong(path, "", maxExpression))
		return nil
	}
	c.podSpec = c.podSpec || strings.Contains(string(text), "spec")
	c.services = c.services || strings.Contains(string(text), "services")
	compiled, err := compileExpression(c.env, string(text), path, yields)
	if err != nil {
		c.errs = append(c.errs, field.Invalid(path, text, c.explain(err)))
		return nil
	}
	return compiled
}

// maxExpression is in bytes.
const maxExpression = 4096

// explain adds a hint to the errors of common mistakes.
func (c *compiler) explain(err error) string {
	said := err.Error()
	for _, name := range []string{"pod", "serviceAccount", "node", "namespaceObject", "services"} {
		if !c.pods && strings.Contains(said, "undeclared reference to '"+name+"'") {
			return said + ": it exists for PodCertificateRequests only, which spec.requests does not contain"
		}
	}
	if strings.Contains(said, "reserved identifier: namespace") {
		return said + ": the namespace of a pod is namespaceObject"
	}
	return said
}

func (c *compiler) subject(s v1alpha1.SubjectProfile, path *field.Path) subject {
	return subject{
		fromRequest:         s.FromRequest,
		commonName:          c.expression(s.CommonName, path.Child("commonName"), aString),
		organizations:       c.expression(s.Organizations, path.Child("organizations"), aStrings),
		organizationalUnits: c.expression(s.OrganizationalUnits, path.Child("organizationalUnits"), aStrings),
	}
}

func (c *compiler) names(n v1alpha1.NamesProfile, path *field.Path) names {
	return names{
		dns:    c.expression(n.DNSNames, path.Child("dnsNames"), aStrings),
		ips:    c.expression(n.IPAddresses, path.Child("ipAddresses"), aStrings),
		uris:   c.expression(n.URIs, path.Child("uris"), aStrings),
		emails: c.expression(n.EmailAddresses, path.Child("emailAddresses"), aStrings),
	}
}

func (c *compiler) rules(declared []v1alpha1.ProfileRule, path *field.Path) []rule {
	var rules []rule
	for i, d := range declared {
		at := path.Index(i)
		r := rule{
			holds:             c.expression(d.Expression, at.Child("expression"), aBool),
			message:           d.Message,
			messageExpression: c.expression(d.MessageExpression, at.Child("messageExpression"), aString),
			reason:            d.Reason,
			field:             at.String(),
		}
		if r.message == "" {
			r.message = "failed rule: " + strings.TrimSpace(string(d.Expression))
		}
		if r.reason == "" {
			r.reason = ReasonRule
		}
		if d.Expression == "" {
			c.errs = append(c.errs, field.Required(at.Child("expression"), "a condition that requests must meet"))
		}
		rules = append(rules, r)
	}
	return rules
}
