package certpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
)

// expression compiles the expression at path. It returns nil without an expression, or
// if the expression is not valid.
func (c *compiler) expression(path *field.Path, text v1alpha1.CEL, yields expression.Result) *expression.Expression {
	if text == "" {
		return nil
	}
	if len(text) > expression.MaxBytes {
		c.errs = append(c.errs, field.TooLong(path, "", expression.MaxBytes))
		return nil
	}
	env, err := expression.ForPolicies()
	if err != nil {
		c.errs = append(c.errs, field.InternalError(path, err))
		return nil
	}
	compiled, err := env.Compile(string(text), yields)
	if err != nil {
		c.invalid(path, text, err.Error())
		return nil
	}
	if cost := compiled.MaxCost(); cost > expression.Limit {
		c.warn(path, fmt.Sprintf("may cost more than %d for a large request, which is then refused: make it cheaper", expression.Limit))
	}
	c.policy.needs.read(compiled, string(text))
	return compiled
}

// read adds the facts that an expression can read.
func (n *Needs) read(e *expression.Expression, text string) {
	n.Origin = n.Origin || e.Reads("request") && strings.Contains(text, "origin") || e.Reads("acme")
	n.Namespace = n.Namespace || e.Reads("namespaceObject")
	n.Node = n.Node || e.Reads("node")
	n.Owner = n.Owner || e.Reads("owner")
	n.Earlier = n.Earlier || e.Reads("renews")
	n.Pod = n.Pod || e.Reads("pod")
	n.Services = n.Services || e.Reads("services")
}

// finish sorts the matchers of permitted values, and notes the facts that the variables
// in patterns read.
func (c *compiler) finish(p *permitted) {
	for _, list := range [][]matcher{p.matchers, p.excluded} {
		slices.SortStableFunc(list, func(a, b matcher) int {
			return cmp.Or(cmp.Compare(slices.Index(forms, a.form), slices.Index(forms, b.form)), cmp.Compare(a.text, b.text))
		})
	}
	p.describe()
	n := &c.policy.needs
	for _, variable := range p.variables() {
		switch name, _, _ := strings.Cut(variable, ":"); name {
		case "namespaceLabel":
			n.Namespace = true
		case "pod", "podLabel", "node": // a pod's node; other nodes are requesters
			n.Pod = true
		case "service":
			n.Services = true
		}
	}
}

// expressions evaluates the expressions of the decision. Their input is built when the
// first one is evaluated.
func (e *evaluation) expressions() *expression.Evaluation {
	if e.evaluated == nil {
		e.evaluated = expression.New(expression.View{
			Request: e.in.Request, Requester: e.requester, PodSpec: true, Policies: e.policyView(),
		}, "policy")
		e.evaluated.Continue(e.earlier)
	}
	return e.evaluated
}

// policyView returns the variables that only policies can read.
func (e *evaluation) policyView() *expression.PolicyView {
	facts := &e.in.Facts
	v := &expression.PolicyView{
		SignerName: SignerName(e.in.Request), Namespace: e.namespace().Value, Node: facts.Node.Value, Owner: facts.Owner.Value,
		Order: facts.Order, Renews: renewedBy(e.in), Unknown: map[string]string{},
	}
	if e.content != nil {
		v.Certificate = e.content.Content
	}
	if facts.Origin.Known {
		v.Origin = originText(facts.Origin.Value)
	}
	for name, fact := range map[string]struct {
		known bool
		is    string
	}{
		"request.origin":  {facts.Origin.Known, "origin"},
		"acme":            {facts.Origin.Known, "origin"},
		"namespaceObject": {e.namespace().Known || e.values.Namespace == "", "namespaces/" + e.values.Namespace},
		"node":            {facts.Node.Known || e.values.Node == "", "nodes/" + e.values.Node},
		"owner":           {facts.Owner.Known || e.in.Request.Kind != v1alpha1.CertificateRequests, "the owner of the request"},
		"renews":          {facts.Earlier.Known || e.in.Request.Kind == v1alpha1.PodCertificateRequests, earlierFact},
		"pod":             {e.podKnown(), e.podFact()},
		"services":        {e.podKnown(), e.podFact()},
		"serviceAccount":  {e.podKnown(), e.podFact()},
	} {
		if !fact.known {
			v.Unknown[name] = fact.is
		}
	}
	if e.in.NamesOnly {
		v.Unknown["acme"] = "the proof of its names"
		for _, field := range []string{"subject", "keyType", "keyBits", "keyFingerprint", "extensions", "signatureAlgorithm"} {
			v.Unknown["request."+field], v.Unknown["certificate."+field] = "the certificate request", "the certificate request"
		}
	}
	if e.in.Request.IsPlanned() || e.in.NamesOnly {
		for _, field := range []string{"request.keyFingerprint", "certificate.keyFingerprint"} {
			v.Unknown[field] = "the key"
		}
		for _, field := range []string{"request.uid", "requester.uid", "requester.extra"} {
			v.Unknown[field] = "the request"
		}
	}
	// A kubelet reports the addresses of its node some time after it has
	// registered it.
	if node := facts.Node.Value; node != nil && len(node.Status.Addresses) == 0 {
		for _, field := range []string{"addresses", "hostnames", "ips"} {
			v.Unknown["node."+field] = "nodes/" + node.Name + " status.addresses"
		}
	}
	return v
}

func (e *evaluation) podKnown() bool {
	return e.in.Request.Kind != v1alpha1.PodCertificateRequests || e.in.Request.Pod != nil
}

func (e *evaluation) podFact() string { return "the pod of " + e.in.Request.Name }

// begin starts the evaluation of another policy, whose expressions have their own
// budget.
func (e *evaluation) begin() {
	if e.evaluated != nil {
		e.evaluated.Begin()
	}
}

// spent returns the cost of all expressions.
func (e *evaluation) spent() uint64 {
	if e.evaluated == nil {
		return 0
	}
	return e.evaluated.Spent()
}

// results returns the results of all expressions.
func (e *evaluation) results() expression.Results {
	if e.evaluated == nil {
		return nil
	}
	return e.evaluated.Results()
}

func (e *evaluation) truth(x *expression.Expression) (bool, *finding) {
	holds, failed := e.expressions().Bool(x)
	return holds, failureOf(failed)
}

func (e *evaluation) text(x *expression.Expression) (string, *finding) {
	text, failed := e.expressions().Text(x)
	return oneLine(cut(text, maxText)), failureOf(failed)
}

func (e *evaluation) texts(x *expression.Expression) ([]string, *finding) {
	texts, failed := e.expressions().Texts(x)
	return texts, failureOf(failed)
}

// maxText is how many bytes of a message expression are used.
const maxText = 1024

func failureOf(failed *expression.Failure) *finding {
	switch {
	case failed == nil:
		return nil
	case len(failed.Open) > 0:
		return &finding{open: strings.Join(failed.Open, ", ")}
	}
	return &finding{reason: ReasonExpression, message: cut(oneLine(failed.Message), maxText)}
}
