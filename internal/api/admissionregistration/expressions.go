package admissionregistration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// maxMatchConditions bounds the expressions that are evaluated before a webhook
// or a policy.
const maxMatchConditions = 64

// withoutParams means that an expression cannot refer to "params".
const withoutParams = false

// expressions are the expressions of a stored object.
type expressions map[string]bool

// language returns the version of CEL's environment for an expression. A new
// expression must also be understood by the previous release.
func (known expressions) language(expression string) environment.Type {
	if known[expression] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// expressionsOf collects every expression in obj.
func expressionsOf(obj runtime.Object) expressions {
	known := expressions{}
	conditions := func(list []v1.MatchCondition) {
		for _, condition := range list {
			known[condition.Expression] = true
		}
	}
	variables := func(list []v1.Variable) {
		for _, variable := range list {
			known[variable.Expression] = true
		}
	}
	switch obj := obj.(type) {
	case *v1.MutatingWebhookConfiguration:
		for _, h := range obj.Webhooks {
			conditions(h.MatchConditions)
		}
	case *v1.ValidatingWebhookConfiguration:
		for _, h := range obj.Webhooks {
			conditions(h.MatchConditions)
		}
	case *v1.ValidatingAdmissionPolicy:
		conditions(obj.Spec.MatchConditions)
		variables(obj.Spec.Variables)
		for _, validation := range obj.Spec.Validations {
			known[validation.Expression], known[validation.MessageExpression] = true, true
		}
		for _, annotation := range obj.Spec.AuditAnnotations {
			known[annotation.ValueExpression] = true
		}
	case *v1.MutatingAdmissionPolicy:
		conditions(obj.Spec.MatchConditions)
		variables(obj.Spec.Variables)
		for _, mutation := range obj.Spec.Mutations {
			known[mutationExpression(mutation)] = true
		}
	}
	return known
}

// baseEnvironment takes time and memory to create, so it is created for the
// first expression.
var baseEnvironment = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// plainCompiler compiles expressions that do not refer to variables.
var plainCompiler = sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(baseEnvironment()) })

// compile reports whether expression has the type that its place requires.
func compile(path *field.Path, compiler plugincel.Compiler, expression plugincel.ExpressionAccessor, variables plugincel.OptionalVariableDeclarations, language environment.Type) field.ErrorList {
	return celError(path, expression.GetExpression(), compiler.CompileCELExpression(expression, variables, language).Error)
}

func celError(path *field.Path, expression string, err *cel.Error) field.ErrorList {
	switch {
	case err == nil:
		return nil
	case err.Type == cel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, err.Detail)}
	case err.Type == cel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(path, expression, err.Detail)}
	}
	return field.ErrorList{field.InternalError(path, err)}
}

func validateConditions(path *field.Path, conditions []v1.MatchCondition, params bool, known expressions) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxMatchConditions))
	}
	for i, condition := range conditions {
		errs = append(errs, validateCondition(path.Index(i), condition, params, known)...)
	}
	names := func(i int) *field.Path { return path.Index(i).Child("name") }
	return append(errs, unique(names, conditions, func(c v1.MatchCondition) string { return c.Name })...)
}

func validateCondition(path *field.Path, condition v1.MatchCondition, params bool, known expressions) field.ErrorList {
	var errs field.ErrorList
	if expression := strings.TrimSpace(condition.Expression); expression == "" {
		errs = append(errs, field.Required(path.Child("expression"), ""))
	} else {
		errs = append(errs, compile(path.Child("expression"), plainCompiler(),
			&matchconditions.MatchCondition{Expression: expression},
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true},
			known.language(condition.Expression))...)
	}
	if condition.Name == "" {
		return append(errs, field.Required(path.Child("name"), ""))
	}
	return append(errs, validateQualifiedName(path.Child("name"), condition.Name)...)
}

func validateQualifiedName(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateVariables declares each variable to compiler, so that later
// expressions can refer to it.
func validateVariables(path *field.Path, compiler *plugincel.CompositedCompiler, variables []v1.Variable, params bool, known expressions) field.ErrorList {
	var errs field.ErrorList
	for i, v := range variables {
		at := path.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !isIdentifier(v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
			continue
		}
		variable := &validating.Variable{Name: v.Name, Expression: v.Expression}
		result := compiler.CompileAndStoreVariable(variable,
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, known.language(v.Expression))
		errs = append(errs, celError(at.Child("expression"), v.Expression, result.Error)...)
	}
	return errs
}

// newCompiler returns a compiler for the expressions of one policy: it
// remembers variables.
func newCompiler() (*plugincel.CompositedCompiler, error) {
	compiler, err := plugincel.NewCompositedCompiler(baseEnvironment())
	if err != nil {
		return nil, fmt.Errorf("making a CEL compiler: %w", err)
	}
	return compiler, nil
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// reservedWords are the reserved words of CEL's grammar
// (https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax).
var reservedWords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
}

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reservedWords, name)
}
