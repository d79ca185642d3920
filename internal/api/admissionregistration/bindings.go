package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateMutatingBinding(spec *v1.MutatingAdmissionPolicyBindingSpec) field.ErrorList {
	errs := validateBinding(spec.PolicyName, spec.ParamRef, spec.MatchResources)
	return append(errs, validateMutable(specPath.Child("matchResources"), spec.MatchResources)...)
}

func validateValidatingBinding(spec *v1.ValidatingAdmissionPolicyBindingSpec) field.ErrorList {
	errs := validateBinding(spec.PolicyName, spec.ParamRef, spec.MatchResources)
	return append(errs, validateActions(specPath.Child("validationActions"), spec.ValidationActions)...)
}

func validateBinding(policy string, params *v1.ParamRef, match *v1.MatchResources) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(specPath.Child("policyName"), ""))
	} else {
		for _, msg := range validation.NameIsDNSSubdomain(policy, false) {
			errs = append(errs, field.Invalid(specPath.Child("policyName"), policy, msg))
		}
	}
	errs = append(errs, validateParamRef(specPath.Child("paramRef"), params)...)
	return append(errs, validateMatch(specPath.Child("matchResources"), match)...)
}

func validateParamRef(path *field.Path, ref *v1.ParamRef) field.ErrorList {
	if ref == nil {
		return nil
	}
	var errs field.ErrorList
	if ref.Name != "" {
		for _, msg := range content.IsPathSegmentName(ref.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), ref.Name, msg))
		}
	}
	if ref.Selector != nil {
		errs = append(errs, validateSelector(path.Child("selector"), ref.Selector)...)
	}
	switch {
	case ref.Name != "" && ref.Selector != nil:
		const both = "name and selector are mutually exclusive"
		errs = append(errs, field.Forbidden(path.Child("name"), both), field.Forbidden(path.Child("selector"), both))
	case ref.Name == "" && ref.Selector == nil:
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	return append(errs, requiredOneOf(path.Child("parameterNotFoundAction"), ref.ParameterNotFoundAction, v1.AllowAction, v1.DenyAction)...)
}

func validateActions(path *field.Path, actions []v1.ValidationAction) field.ErrorList {
	if len(actions) == 0 {
		return field.ErrorList{field.Required(path, "at least one validation action is required")}
	}
	var errs field.ErrorList
	has := map[v1.ValidationAction]bool{}
	for i, action := range actions {
		errs = append(errs, oneOf(path.Index(i), &action, v1.Audit, v1.Deny, v1.Warn)...)
		has[action] = true
	}
	errs = append(errs, unique(path.Index, actions, func(a v1.ValidationAction) string { return string(a) })...)
	if has[v1.Deny] && has[v1.Warn] {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}
