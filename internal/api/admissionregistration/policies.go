package admissionregistration

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
)

// Bounds of what a policy adds to the audit log.
const (
	maxAuditAnnotations     = 20
	maxAuditAnnotationBytes = 5 * 1024
)

func validateValidatingPolicy(name string, spec *v1.ValidatingAdmissionPolicySpec, known expressions) field.ErrorList {
	params := spec.ParamKind != nil
	errs := requiredOneOf(specPath.Child("failurePolicy"), spec.FailurePolicy, v1.Fail, v1.Ignore)
	errs = append(errs, validateParamKind(specPath.Child("paramKind"), spec.ParamKind)...)
	errs = append(errs, validateConstraints(specPath.Child("matchConstraints"), spec.MatchConstraints)...)
	errs = append(errs, validateConditions(specPath.Child("matchConditions"), spec.MatchConditions, params, known)...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const missing = "validations or auditAnnotations must contain at least one item"
		errs = append(errs, field.Required(specPath.Child("validations"), missing), field.Required(specPath.Child("auditAnnotations"), missing))
	}
	compiler, err := newCompiler()
	if err != nil {
		return append(errs, field.InternalError(specPath, err))
	}
	errs = append(errs, validateVariables(specPath.Child("variables"), compiler, spec.Variables, params, known)...)
	for i, v := range spec.Validations {
		errs = append(errs, validateValidation(specPath.Child("validations").Index(i), compiler, v, params, known)...)
	}
	return append(errs, validateAuditAnnotations(name, spec.AuditAnnotations, compiler, params, known)...)
}

func validateValidation(path *field.Path, compiler plugincel.Compiler, v v1.Validation, params bool, known expressions) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, compile(path.Child("expression"), compiler, &validating.ValidationCondition{Expression: v.Expression},
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, known.language(v.Expression))...)
	}
	switch {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	default:
		errs = append(errs, compile(path.Child("messageExpression"), compiler, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression},
			plugincel.OptionalVariableDeclarations{HasParams: params}, known.language(v.MessageExpression))...)
	}
	switch message := strings.TrimSpace(v.Message); {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(message, "\r\n"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, oneOf(path.Child("reason"), v.Reason,
		metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
}

func validateAuditAnnotations(policy string, annotations []v1.AuditAnnotation, compiler plugincel.Compiler, params bool, known expressions) field.ErrorList {
	path := specPath.Child("auditAnnotations")
	var errs field.ErrorList
	if len(annotations) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(path, annotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	for i, annotation := range annotations {
		if policy == "" {
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), annotation.Key, "requires metadata.name be non-empty"))
		} else { // the key in the log is policy/key
			errs = append(errs, validateQualifiedName(path.Index(i).Child("key"), policy+"/"+annotation.Key)...)
		}
		errs = append(errs, validateAuditValue(path.Index(i).Child("valueExpression"), compiler, annotation.ValueExpression, params, known)...)
	}
	keys := func(i int) *field.Path { return path.Index(i).Child("key") }
	return append(errs, unique(keys, annotations, func(a v1.AuditAnnotation) string { return a.Key })...)
}

func validateAuditValue(path *field.Path, compiler plugincel.Compiler, value string, params bool, known expressions) field.ErrorList {
	expression := strings.TrimSpace(value)
	switch {
	case expression == "":
		return field.ErrorList{field.Required(path, "valueExpression is not specified")}
	case len(expression) > maxAuditAnnotationBytes:
		return field.ErrorList{field.Required(path, fmt.Sprintf("must not exceed %d bytes in length", maxAuditAnnotationBytes))}
	}
	return compile(path, compiler, &validating.AuditAnnotationCondition{ValueExpression: expression},
		plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, known.language(value))
}

func validateMutatingPolicy(spec *v1.MutatingAdmissionPolicySpec, known expressions) field.ErrorList {
	params := spec.ParamKind != nil
	constraints := specPath.Child("matchConstraints")
	errs := requiredOneOf(specPath.Child("failurePolicy"), spec.FailurePolicy, v1.Fail, v1.Ignore)
	errs = append(errs, validateParamKind(specPath.Child("paramKind"), spec.ParamKind)...)
	errs = append(errs, validateConstraints(constraints, spec.MatchConstraints)...)
	errs = append(errs, validateMutable(constraints, spec.MatchConstraints)...)
	errs = append(errs, validateConditions(specPath.Child("matchConditions"), spec.MatchConditions, params, known)...)
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(specPath.Child("mutations"), "mutations must contain at least one item"))
	}
	compiler, err := newCompiler()
	if err != nil {
		return append(errs, field.InternalError(specPath, err))
	}
	errs = append(errs, validateVariables(specPath.Child("variables"), compiler, spec.Variables, params, known)...)
	for i, m := range spec.Mutations {
		errs = append(errs, validateMutation(specPath.Child("mutations").Index(i), compiler, m, params, known)...)
	}
	return append(errs, requiredOneOf(specPath.Child("reinvocationPolicy"), &spec.ReinvocationPolicy, v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
}

// validateMutation checks that exactly the field that the type requires is set,
// of the two ways to mutate.
func validateMutation(path *field.Path, compiler plugincel.Compiler, m v1.Mutation, params bool, known expressions) field.ErrorList {
	var errs field.ErrorList
	var expression plugincel.ExpressionAccessor
	wanted, other := "", ""
	hasWanted, hasOther := m.JSONPatch != nil, m.ApplyConfiguration != nil
	text := strings.TrimSpace(mutationExpression(m))
	switch m.PatchType {
	case v1.PatchTypeJSONPatch:
		wanted, other = "jsonPatch", "applyConfiguration"
		expression = &patch.JSONPatchCondition{Expression: text}
	case v1.PatchTypeApplyConfiguration:
		wanted, other = "applyConfiguration", "jsonPatch"
		hasWanted, hasOther = hasOther, hasWanted
		expression = &patch.ApplyConfigurationCondition{Expression: text}
	default:
		return requiredOneOf(path.Child("patchType"), &m.PatchType, v1.PatchTypeApplyConfiguration, v1.PatchTypeJSONPatch)
	}
	at := path.Child(wanted, "expression")
	switch {
	case !hasWanted:
		errs = append(errs, field.Required(path.Child(wanted), "must be specified when patchType is "+string(m.PatchType)))
	case text == "":
		errs = append(errs, field.Required(at, ""))
	default:
		errs = append(errs, compile(at, compiler, expression,
			plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true},
			known.language(mutationExpression(m)))...)
	}
	if hasOther {
		errs = append(errs, field.Invalid(path.Child(other), "{"+other+"}", "must not be specified when patchType is "+string(m.PatchType)))
	}
	return errs
}

// mutationExpression returns the expression for the type of m.
func mutationExpression(m v1.Mutation) string {
	switch {
	case m.PatchType == v1.PatchTypeJSONPatch && m.JSONPatch != nil:
		return m.JSONPatch.Expression
	case m.PatchType == v1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
		return m.ApplyConfiguration.Expression
	}
	return ""
}

func validateParamKind(path *field.Path, kind *v1.ParamKind) field.ErrorList {
	if kind == nil {
		return nil
	}
	errs := validateAPIVersion(path.Child("apiVersion"), kind.APIVersion)
	if kind.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	if msgs := utilvalidation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), kind.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

func validateAPIVersion(path *field.Path, apiVersion string) field.ErrorList {
	if apiVersion == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(path, apiVersion, err.Error())}
	}
	var errs field.ErrorList
	if gv.Group != "" {
		if msgs := utilvalidation.IsDNS1123Subdomain(gv.Group); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path, gv.Group, strings.Join(msgs, ",")))
		}
	}
	if gv.Version == "" {
		return append(errs, field.Invalid(path, apiVersion, "version must be specified"))
	}
	if msgs := utilvalidation.IsDNS1035Label(gv.Version); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path, gv.Version, strings.Join(msgs, ",")))
	}
	return errs
}
