package certpolicy

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
)

var (
	ruleName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	ruleReason = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// name checks the name of a rule or of a condition of match.
func (c *checker) name(path *field.Path, name string, seen map[string]bool) {
	switch {
	case !ruleName.MatchString(name):
		c.invalid(path, name, "must be a DNS label: at most 63 lower-case letters, digits and hyphens")
	case seen[name]:
		c.errs = append(c.errs, field.Duplicate(path, name))
	}
	seen[name] = true
}

// rules compiles the rules of a policy.
func (c *compiler) rules(path *field.Path, rules []v1alpha1.PolicyRule) {
	seen := map[string]bool{}
	for i, rule := range byName(rules, func(r *v1alpha1.PolicyRule) string { return r.Name }) {
		path := path.Index(i)
		c.name(path.Child("name"), rule.Name, seen)
		for j, kind := range rule.Kinds {
			oneOf(c.checker, path.Child("kinds").Index(j), kind, v1alpha1.CertificateSigningRequests, v1alpha1.PodCertificateRequests, v1alpha1.CertificateRequests)
		}
		if rule.Reason != "" && !ruleReason.MatchString(rule.Reason) {
			c.invalid(path.Child("reason"), rule.Reason, "must be in CamelCase, such as NoDevelopmentNames")
		}
		if rule.Expression == "" {
			c.required(path.Child("expression"), "must be given")
		}
		holds := c.expression(path.Child("expression"), rule.Expression, expression.Bool)
		message := c.expression(path.Child("messageExpression"), rule.MessageExpression, expression.Text)
		if holds != nil {
			c.add((&compiledRule{rule, holds, message}).evaluate)
		}
	}
}

type compiledRule struct {
	v1alpha1.PolicyRule
	holds, message *expression.Expression
}

func (r *compiledRule) evaluate(e *evaluation) []finding {
	if len(r.Kinds) > 0 && !slices.Contains(r.Kinds, e.in.Request.Kind) {
		return nil
	}
	at := "rules[" + r.Name + "]"
	holds, failed := e.truth(r.holds)
	switch {
	case failed != nil:
		failed.at, failed.field = at, r.Field
		return []finding{*failed}
	case holds:
		return nil
	}
	f := finding{at: at, reason: ReasonRule, field: r.Field, message: r.text(e)}
	if r.Reason != "" {
		f.reason = r.Reason
	}
	return []finding{f}
}

// text returns the message of a rule that does not hold. A message expression
// that has no value does not hide the refusal.
func (r *compiledRule) text(e *evaluation) string {
	if r.message != nil {
		if text, failed := e.text(r.message); failed == nil && text != "" {
			return text
		}
	}
	if r.Message != "" {
		return oneLine(r.Message)
	}
	return fmt.Sprintf("the rule %s does not hold: %s", r.Name, cut(oneLine(string(r.Expression)), 512))
}
