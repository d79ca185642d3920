package admissionregistration

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
)

// ValidateStatus checks the results of type checking a policy.
func ValidateStatus(status *v1.ValidatingAdmissionPolicyStatus) field.ErrorList {
	path := field.NewPath("status")
	errs := metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))
	if status.TypeChecking == nil {
		return errs
	}
	for i, warning := range status.TypeChecking.ExpressionWarnings {
		at := path.Child("typeChecking", "expressionWarnings").Index(i)
		if warning.Warning == "" {
			errs = append(errs, field.Required(at.Child("warning"), ""))
		}
		errs = append(errs, validateFieldRef(at.Child("fieldRef"), strings.TrimSpace(warning.FieldRef))...)
	}
	return errs
}

func validateFieldRef(path *field.Path, ref string) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(path, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
