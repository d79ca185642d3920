package crp

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// rule is a compiled expression.
type rule struct {
	text string
	// message is for a request for which the rule does not hold.
	message string
	program cel.Program
	// err is why the rule could not be compiled.
	err error
}

func compileRules(declared []approverpolicy.ValidationRule) []rule {
	rules := make([]rule, 0, len(declared))
	for _, d := range declared {
		r := rule{text: d.Rule, message: "failed rule: " + d.Rule}
		if d.Message != nil {
			r.message = *d.Message
		}
		r.program, r.err = compileRule(d.Rule)
		rules = append(rules, r)
	}
	return rules
}

func compileRule(text string) (cel.Program, error) {
	d, err := newDialect()
	if err != nil {
		return nil, err
	}
	ast, issues := d.env.Compile(text)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if !reflect.DeepEqual(ast.OutputType(), cel.BoolType) {
		return nil, fmt.Errorf("got %v, wanted %v result type", ast.OutputType(), cel.BoolType)
	}
	return d.env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(interruptCheck))
}

// check returns what is wrong with a value. A rule that fails is a violation:
// nothing is approved that could not be checked.
func (r *rule) check(c *content, path *field.Path, self string) *field.Error {
	holds, err := r.holds(c, self)
	switch {
	case err != nil:
		return field.InternalError(path, err)
	case !holds:
		return field.Invalid(path, self, r.message)
	}
	return nil
}

func (r *rule) holds(c *content, self string) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	cr, err := c.variable()
	if err != nil {
		return false, err
	}
	value, _, err := r.program.Eval(map[string]any{"self": self, "cr": cr})
	if err != nil {
		return false, err
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, errors.New("the rule does not yield a bool")
	}
	return holds, nil
}
