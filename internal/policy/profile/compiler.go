package profile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
)

// compiler compiles the expressions of one profile and collects their errors.
type compiler struct {
	env *expression.Environment
	// podSpec is set if an expression may read a pod's spec.
	podSpec bool
	// services is set if an expression may read services.
	services bool
	// order is set if an expression may read the order of an ACME client.
	order bool
	// requester is set if an expression may read the requester.
	requester bool
	errs      field.ErrorList
}

func newCompiler(kinds []v1alpha1.RequestKind) *compiler {
	c := &compiler{}
	var err error
	if c.env, err = expression.For(kinds); err != nil {
		c.errs = field.ErrorList{field.InternalError(nil, fmt.Errorf("making the environment of expressions: %w", err))}
	}
	return c
}

// expression compiles text. An empty text yields nothing.
func (c *compiler) expression(text v1alpha1.CEL, path *field.Path, yields expression.Result) *compiled {
	switch {
	case text == "" || c.env == nil:
		return nil
	case len(text) > expression.MaxBytes:
		c.errs = append(c.errs, field.TooLong(path, "", expression.MaxBytes))
		return nil
	}
	compiled, err := c.compile(string(text), path, yields)
	if err != nil {
		c.errs = append(c.errs, field.Invalid(path, text, err.Error()))
		return nil
	}
	return compiled
}

func (c *compiler) subject(s v1alpha1.SubjectProfile, path *field.Path) subject {
	return subject{
		fromRequest:         s.FromRequest,
		commonName:          c.expression(s.CommonName, path.Child("commonName"), expression.Text),
		organizations:       c.expression(s.Organizations, path.Child("organizations"), expression.Texts),
		organizationalUnits: c.expression(s.OrganizationalUnits, path.Child("organizationalUnits"), expression.Texts),
	}
}

func (c *compiler) names(n v1alpha1.NamesProfile, path *field.Path) names {
	return names{
		dns:    c.expression(n.DNSNames, path.Child("dnsNames"), expression.Texts),
		ips:    c.expression(n.IPAddresses, path.Child("ipAddresses"), expression.Texts),
		uris:   c.expression(n.URIs, path.Child("uris"), expression.Texts),
		emails: c.expression(n.EmailAddresses, path.Child("emailAddresses"), expression.Texts),
	}
}

func (c *compiler) rules(declared []v1alpha1.ProfileRule, path *field.Path) []rule {
	var rules []rule
	for i, d := range declared {
		at := path.Index(i)
		r := rule{
			holds:             c.expression(d.Expression, at.Child("expression"), expression.Bool),
			message:           d.Message,
			messageExpression: c.expression(d.MessageExpression, at.Child("messageExpression"), expression.Text),
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
