package profile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits for the cost of evaluation, in the units of Kubernetes' own
// limits: a million is about a tenth of a second. All expressions of a profile
// share the budget of a decision.
const (
	expressionLimit = 1_000_000
	decisionBudget  = 4_000_000
)

// The limits for the results of an expression. A PKCS#10 request of a pod has
// at most 10 KiB; no legitimate certificate is larger.
const (
	maxValues     = 256
	maxValueBytes = 4096
)

// expression is a compiled CEL expression.
type expression struct {
	program cel.Program
	field   string
}

// evaluation evaluates the expressions of one decision.
type evaluation struct {
	variables map[string]any
	budget    uint64
}

// value evaluates e, within the rest of the budget.
func (ev *evaluation) value(e *expression) (ref.Val, *Refusal) {
	value, details, err := e.program.Eval(ev.variables)
	cost := uint64(0)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "cost limit exceeded"):
		return nil, refuse(ReasonExpression, e.field, "the expression costs more than %d for this request: make it cheaper", expressionLimit)
	case err != nil:
		return nil, refuse(ReasonExpression, e.field, "the signer's expression failed for this request: %s", withoutPosition(err.Error()))
	case cost > ev.budget:
		return nil, refuse(ReasonExpression, e.field, "the signer's expressions cost more than %d for this request: make them cheaper", decisionBudget)
	}
	ev.budget -= cost
	return value, nil
}

func (ev *evaluation) bool(e *expression) (bool, *Refusal) {
	value, refusal := ev.value(e)
	if refusal != nil {
		return false, refusal
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, e.wrongType(value, "a bool")
	}
	return holds, nil
}

// string evaluates e. The result is empty if there is no expression.
func (ev *evaluation) string(e *expression) (string, *Refusal) {
	if e == nil {
		return "", nil
	}
	value, refusal := ev.value(e)
	if refusal != nil {
		return "", refusal
	}
	return e.text(value)
}

// strings returns the values of e without duplicates. The result is empty if
// there is no expression.
func (ev *evaluation) strings(e *expression) ([]string, *Refusal) {
	if e == nil {
		return nil, nil
	}
	value, refusal := ev.value(e)
	if refusal != nil {
		return nil, refusal
	}
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, e.wrongType(value, "a list of strings")
	}
	return e.texts(list)
}

func (e *expression) texts(list traits.Lister) ([]string, *Refusal) {
	if size, ok := list.Size().(types.Int); !ok || size > maxValues {
		return nil, refuse(ReasonExpression, e.field, "the expression yields more than %d values", maxValues)
	}
	var texts []string
	seen := map[string]bool{}
	for each := list.Iterator(); each.HasNext() == types.True; {
		text, refusal := e.text(each.Next())
		if refusal != nil {
			return nil, refusal
		}
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return texts, nil
}

func (e *expression) text(value ref.Val) (string, *Refusal) {
	text, ok := value.Value().(string)
	if !ok {
		return "", e.wrongType(value, "a string")
	}
	if len(text) > maxValueBytes {
		return "", refuse(ReasonExpression, e.field, "the expression yields a value of more than %d bytes", maxValueBytes)
	}
	return text, nil
}

func (e *expression) wrongType(value ref.Val, want string) *Refusal {
	return refuse(ReasonExpression, e.field, "the expression yields a %s instead of %s", value.Type().TypeName(), want)
}

// compileExpression compiles text in env. Its type must be one of yields.
func compileExpression(env *cel.Env, text string, path *field.Path, yields result) (*expression, error) {
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return nil, errors.New(withoutPosition(issues.String()))
	}
	if !yields.allows(ast.OutputType()) {
		return nil, fmt.Errorf("must yield %s, and yields %s", yields.name, ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(expressionLimit), cel.CostTracking(costs))
	if err != nil {
		return nil, errors.New(withoutPosition(err.Error()))
	}
	return &expression{program: program, field: path.String()}, nil
}

// result is what an expression may yield.
type result struct {
	name  string
	types []*cel.Type
}

// A value whose type is not known at compile time (dyn) is checked for each
// request.
var (
	aBool    = result{"a bool", []*cel.Type{cel.BoolType, cel.DynType}}
	aString  = result{"a string", []*cel.Type{cel.StringType, cel.DynType}}
	aStrings = result{"a list of strings", []*cel.Type{cel.ListType(cel.StringType), cel.ListType(cel.DynType), cel.DynType}}
)

func (r result) allows(t *cel.Type) bool {
	for _, allowed := range r.types {
		if t.IsExactType(allowed) {
			return true
		}
	}
	// An empty list has no type of elements.
	return t.Kind() == types.ListKind && r.name == aStrings.name && t.Parameters()[0].Kind() == types.TypeParamKind
}

// withoutPosition converts a message of the library to one line.
func withoutPosition(text string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(text, "ERROR: <input>:"), "\n")
	return strings.TrimSpace(first)
}
