package expression

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The limits for the cost of evaluation, in the units of Kubernetes' own
// limits: a million is about a tenth of a second. Expressions of one profile or
// policy share a budget, and so do those of all policies of a decision.
const (
	Limit          = 1_000_000
	Budget         = 4_000_000
	DecisionBudget = 10_000_000
)

// maxIterations is how often the loops of one expression may turn, altogether.
// Cost is not enough of a limit: the time that the library takes to count it
// grows with the square of the length of a loop.
const maxIterations = 12_500

// The limits for the results of an expression. A PKCS#10 request of a pod has
// at most 10 KiB; no legitimate certificate is larger.
const (
	maxValues     = 256
	maxValueBytes = 4096
)

// MaxBytes is the largest size of an expression, in bytes.
const MaxBytes = 4096

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	program cel.Program
	reads   map[string]bool
	most    uint64
	// quick: the program does not count its cost, which is taken to be most.
	quick bool
}

// Reads reports whether the expression may read a variable, such as node. The
// specification of a pod is pod.spec.
func (e *Expression) Reads(variable string) bool { return e.reads[variable] }

// MaxCost returns the estimated cost of the expression for the largest requests. If it is
// more than Limit, the expression fails for some of them.
func (e *Expression) MaxCost() uint64 { return e.most }

// Failure is why an expression has no value for a request.
type Failure struct {
	// Message says why.
	Message string
	// Open names facts that are not known yet. Message is then empty.
	Open []string
}

func failure(format string, args ...any) *Failure {
	return &Failure{Message: fmt.Sprintf(format, args...)}
}

// Evaluation evaluates the expressions of one decision. It is not safe for
// concurrent use.
type Evaluation struct {
	variables *variables
	owner     string
	// earlier are the results of an evaluation of the same request, results those
	// of this one.
	earlier, results Results
	// decision and part are the remaining budgets.
	decision, part uint64
	spent          uint64
}

// Results are the results of expressions. They are safe for concurrent use once
// their evaluation has ended.
type Results map[*Expression]result

// result is the result of an expression, and its cost.
type result struct {
	value  ref.Val
	failed *Failure
	cost   uint64
}

// New returns an Evaluation for a view of a request. owner names the owner of the
// expressions in messages, such as "signer".
func New(v View, owner string) *Evaluation {
	return &Evaluation{variables: newVariables(v), owner: owner, results: Results{}, decision: DecisionBudget, part: Budget}
}

// Continue takes the results of an evaluation whose view differed in nothing but
// the certificate, for expressions that do not read it. They cost the same again.
func (ev *Evaluation) Continue(earlier Results) { ev.earlier = earlier }

// Results returns the results so far.
func (ev *Evaluation) Results() Results { return ev.results }

// Begin begins with the expressions of another policy, which have a budget of
// their own.
func (ev *Evaluation) Begin() { ev.part = Budget }

// Spent returns the cost of all evaluated expressions.
func (ev *Evaluation) Spent() uint64 { return ev.spent }

// ended is a context that has ended. The library asks for its end after every
// maxIterations turns of loops, so an evaluation ends always at the same turn.
type ended struct{}

func (ended) Deadline() (time.Time, bool) { return time.Time{}, false }
func (ended) Done() <-chan struct{}       { return closed }
func (ended) Err() error                  { return errEnded }
func (ended) Value(any) any               { return nil }

var (
	closed   = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
	errEnded = errors.New("too many turns")
)

// value returns the value of e, within the rest of the budgets. An expression
// that fails costs as well, and none is evaluated after a budget is spent: all
// together, expressions take no more time than the budgets and one expression.
func (ev *Evaluation) value(e *Expression) (ref.Val, *Failure) {
	if failed := ev.exhausted(); failed != nil {
		return nil, failed
	}
	r, known := ev.results[e]
	if !known && !e.Reads("certificate") {
		r, known = ev.earlier[e]
	}
	if !known {
		r = ev.evaluate(e)
	}
	ev.results[e] = r
	if !ev.charge(r.cost) && (r.failed == nil || len(r.failed.Open) > 0) {
		return nil, ev.exhausted()
	}
	return r.value, r.failed
}

func (ev *Evaluation) evaluate(e *Expression) result {
	vars, err := ev.variables.activation()
	if err != nil {
		return result{failed: failure("the %s's expression failed for this request: %v", ev.owner, err)}
	}
	var value ref.Val
	r := result{cost: max(1, e.most)}
	if e.quick {
		value, _, err = e.program.Eval(vars)
	} else {
		var details *cel.EvalDetails
		value, details, err = e.program.ContextEval(ended{}, vars)
		r.cost = costOf(details, err)
	}
	switch {
	case err != nil && strings.Contains(err.Error(), costExceeded):
		r.failed = failure("the expression costs more than %d for this request: make it cheaper", Limit)
	case err != nil && strings.Contains(err.Error(), interrupted):
		r.failed = failure("the loops of the expression turn more than %d times for this request: make it cheaper", maxIterations)
	case err != nil:
		r.failed = failure("the %s's expression failed for this request: %s", ev.owner, explainFailure(err))
	case types.IsUnknown(value):
		r.failed = &Failure{Open: ev.variables.open(value.(*types.Unknown))}
	default:
		r.value = value
	}
	return r
}

// The errors of the library for expressions that take too long.
const (
	costExceeded = "cost limit exceeded"
	interrupted  = "operation interrupted"
)

// costOf returns the cost of an evaluation.
func costOf(details *cel.EvalDetails, err error) uint64 {
	cost := uint64(1)
	if details != nil && details.ActualCost() != nil {
		cost = max(cost, *details.ActualCost())
	}
	if err != nil && strings.Contains(err.Error(), costExceeded) {
		cost = max(cost, Limit)
	}
	return cost
}

// charge takes a cost from the budgets, and reports whether it was within them.
func (ev *Evaluation) charge(cost uint64) bool {
	ev.spent += cost
	within := cost <= ev.part && cost <= ev.decision
	ev.part -= min(cost, ev.part)
	ev.decision -= min(cost, ev.decision)
	return within
}

// exhausted reports a spent budget, nil if none is.
func (ev *Evaluation) exhausted() *Failure {
	switch {
	case ev.decision == 0:
		return failure("the expressions of all policies cost more than %d for this request: make them cheaper", DecisionBudget)
	case ev.part == 0:
		return failure("the %s's expressions cost more than %d for this request: make them cheaper", ev.owner, Budget)
	}
	return nil
}

// explainFailure returns the error of the library for a failed expression, with a hint if
// a value is missing.
func explainFailure(err error) string {
	said := withoutPosition(err.Error())
	if strings.Contains(said, "no such key") {
		said += ": ask for it first, with has(a.b) or a[?'b'].orValue('')"
	}
	return said
}

// Bool returns the value of an expression that yields a bool.
func (ev *Evaluation) Bool(e *Expression) (bool, *Failure) {
	value, failed := ev.value(e)
	if failed != nil {
		return false, failed
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, wrongType(value, "a bool")
	}
	return holds, nil
}

// Text returns the value of an expression that yields a string. It is empty if e is nil.
func (ev *Evaluation) Text(e *Expression) (string, *Failure) {
	if e == nil {
		return "", nil
	}
	value, failed := ev.value(e)
	if failed != nil {
		return "", failed
	}
	return asText(value)
}

// Texts returns the values of an expression that yields a list, without duplicates. The
// result is empty if e is nil.
func (ev *Evaluation) Texts(e *Expression) ([]string, *Failure) {
	if e == nil {
		return nil, nil
	}
	value, failed := ev.value(e)
	if failed != nil {
		return nil, failed
	}
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, wrongType(value, "a list of strings")
	}
	return asTexts(list)
}

func asTexts(list traits.Lister) ([]string, *Failure) {
	if size, ok := list.Size().(types.Int); !ok || size > maxValues {
		return nil, failure("the expression yields more than %d values", maxValues)
	}
	var texts []string
	seen := map[string]bool{}
	for each := list.Iterator(); each.HasNext() == types.True; {
		text, failed := asText(each.Next())
		if failed != nil {
			return nil, failed
		}
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return texts, nil
}

func asText(value ref.Val) (string, *Failure) {
	text, ok := value.Value().(string)
	if !ok {
		return "", wrongType(value, "a string")
	}
	if len(text) > maxValueBytes {
		return "", failure("the expression yields a value of more than %d bytes", maxValueBytes)
	}
	return text, nil
}

func wrongType(value ref.Val, want string) *Failure {
	return failure("the expression yields a %s instead of %s", value.Type().TypeName(), want)
}

// Compile compiles text. Its type must be one of yields. The errors are for the author.
// Equal texts yield the same Expression while it is among the last that were compiled:
// many policies are made from one pattern.
func (env *Environment) Compile(text string, yields Result) (*Expression, error) {
	key := compiledKey{text, yields.name}
	if known, found := env.compiled.Get(key); found {
		return known.(*Expression), nil
	}
	e, err := env.compile(text, yields)
	if err == nil {
		env.compiled.Add(key, e)
	}
	return e, err
}

type compiledKey struct{ text, yields string }

// keptExpressions is how many compiled expressions an environment keeps.
const keptExpressions = 1024

func (env *Environment) compile(text string, yields Result) (*Expression, error) {
	ast, issues := env.env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return nil, errors.New(env.explain(withoutPosition(issues.String())))
	}
	if !yields.allows(ast.OutputType()) {
		return nil, fmt.Errorf("must yield %s, and yields %s", yields.name, ast.OutputType())
	}
	quick, options := isQuick(ast), []cel.ProgramOption{cel.EvalOptions(cel.OptPartialEval)}
	if !quick {
		options = append(options, cel.CostLimit(Limit), cel.CostTracking(costs), cel.InterruptCheckFrequency(maxIterations))
	}
	program, err := env.env.Program(ast, options...)
	if err != nil {
		return nil, errors.New(withoutPosition(err.Error()))
	}
	least, most := env.estimate(ast)
	if least > Limit {
		return nil, fmt.Errorf("costs at least %d for every request, more than %d: make it cheaper", least, Limit)
	}
	e := &Expression{program: program, reads: map[string]bool{}, most: most, quick: quick}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		e.reads[reference.Name] = true
	}
	e.reads["pod.spec"] = e.reads["pod"] && strings.Contains(text, "spec")
	return e, nil
}

// explain adds a hint to the errors of common mistakes.
func (env *Environment) explain(said string) string {
	for _, name := range []string{"pod", "serviceAccount", "node", "namespaceObject", "services"} {
		if !env.pods && strings.Contains(said, "undeclared reference to '"+name+"'") {
			return said + ": it exists for PodCertificateRequests only, which spec.requests does not contain"
		}
	}
	if strings.Contains(said, "reserved identifier: namespace") {
		return said + ": the namespace of a pod is namespaceObject"
	}
	return said
}

// Result is a type that an expression may yield.
type Result struct {
	name  string
	types []*cel.Type
}

// A value whose type is not known at compile time (dyn) is checked for each
// request.
var (
	Bool  = Result{"a bool", []*cel.Type{cel.BoolType, cel.DynType}}
	Text  = Result{"a string", []*cel.Type{cel.StringType, cel.DynType}}
	Texts = Result{"a list of strings", []*cel.Type{cel.ListType(cel.StringType), cel.ListType(cel.DynType), cel.DynType}}
)

func (r Result) allows(t *cel.Type) bool {
	for _, allowed := range r.types {
		if t.IsExactType(allowed) {
			return true
		}
	}
	// An empty list has no type of elements.
	return t.Kind() == types.ListKind && r.name == Texts.name && t.Parameters()[0].Kind() == types.TypeParamKind
}

// withoutPosition converts a message of the library to one line.
func withoutPosition(text string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(text, "ERROR: <input>:"), "\n")
	return strings.TrimSpace(first)
}
