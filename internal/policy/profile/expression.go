package profile

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/request"
)

// compiled is an expression of a profile.
type compiled struct {
	*expression.Expression
	field string
}

// evaluation evaluates the expressions of one decision.
type evaluation struct{ *expression.Evaluation }

func (p *Profile) evaluation(f request.Request) evaluation {
	return evaluation{expression.New(expression.View{Request: f, Requester: f.Who(), PodSpec: p.podSpec}, "signer")}
}

func (ev evaluation) bool(e *compiled) (bool, *Refusal) {
	holds, failed := ev.Bool(e.Expression)
	return holds, e.refusal(failed)
}

// string evaluates e. The result is empty if e is nil.
func (ev evaluation) string(e *compiled) (string, *Refusal) {
	if e == nil {
		return "", nil
	}
	text, failed := ev.Text(e.Expression)
	return text, e.refusal(failed)
}

// strings returns the values of e without duplicates. The result is empty if e is nil.
func (ev evaluation) strings(e *compiled) ([]string, *Refusal) {
	if e == nil {
		return nil, nil
	}
	texts, failed := ev.Texts(e.Expression)
	return texts, e.refusal(failed)
}

func (e *compiled) refusal(failed *expression.Failure) *Refusal {
	if failed == nil {
		return nil
	}
	return refuse(ReasonExpression, e.field, "%s", failed.Message)
}

// compile compiles text for the field at path.
func (c *compiler) compile(text string, path *field.Path, yields expression.Result) (*compiled, error) {
	e, err := c.env.Compile(text, yields)
	if err != nil {
		return nil, err
	}
	c.podSpec = c.podSpec || e.Reads("pod.spec")
	c.services = c.services || e.Reads("services")
	c.order = c.order || e.Reads("acme")
	c.requester = c.requester || e.Reads("requester")
	return &compiled{Expression: e, field: path.String()}, nil
}
