package certmanager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxEcho is how much of an invalid request is repeated to the client.
const maxEcho = 100

// DurationHint explains how durations are written, after a client has used
// another format.
const DurationHint = "write it in hours, minutes and seconds, such as 2160h or 1h30m"

var (
	specPath       = field.NewPath("spec")
	conditionsPath = field.NewPath("status", "conditions")
)

// ValidateRequest returns the errors of a new request. It does not check
// whether the issuer exists: it may be created later.
func ValidateRequest(cr *cmv1.CertificateRequest) field.ErrorList {
	errs := validateIssuerRef(cr.Spec.IssuerRef, specPath.Child("issuerRef"))
	errs = append(errs, validateRequestSpec(cr, specPath)...)
	return append(errs, validateDecision(cr.Status.Conditions, conditionsPath)...)
}

// ValidateRequestUpdate returns the errors of replacing old by cr, through the
// resource itself or its status.
func ValidateRequestUpdate(cr, old *cmv1.CertificateRequest) field.ErrorList {
	errs := validateOwnAnnotations(cr.Annotations, old.Annotations, field.NewPath("metadata", "annotations"))
	errs = append(errs, validateDecisionChange(cr.Status.Conditions, old.Status.Conditions, conditionsPath)...)
	if !apiequality.Semantic.DeepEqual(cr.Spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, "cannot change spec after creation"))
	}
	return errs
}

func validateRequestSpec(cr *cmv1.CertificateRequest, path *field.Path) field.ErrorList {
	spec := &cr.Spec
	if len(spec.Request) == 0 {
		return field.ErrorList{field.Required(path.Child("request"), "must be a certificate request in PEM")}
	}
	if _, err := Usages(spec.Usages, spec.IsCA); err != nil {
		return field.ErrorList{field.Invalid(path.Child("usages"), spec.Usages, err.Error())}
	}
	if err := CheckNamedRequest(cr); err != nil {
		return field.ErrorList{field.Invalid(path.Child("request"), echo(spec.Request), err.Error())}
	}
	return nil
}

func echo(request []byte) string {
	if len(request) <= maxEcho {
		return string(request)
	}
	return string(request[:maxEcho-len("...")]) + "..."
}

// validateOwnAnnotations refuses changes of annotations that signers follow:
// what was approved must be what is signed.
func validateOwnAnnotations(annotations, old map[string]string, path *field.Path) field.ErrorList {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, annotations)
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(key, Group) && !strings.HasPrefix(key, ACMEGroup) {
			continue
		}
		value, has := annotations[key]
		before, had := old[key]
		if has != had || value != before {
			errs = append(errs, field.Forbidden(path.Child(key), "cannot change cert-manager annotation after creation"))
		}
	}
	return errs
}

// decisions are the conditions that decide whether a request may be signed.
var decisions = []cmv1.CertificateRequestConditionType{
	cmv1.CertificateRequestConditionApproved,
	cmv1.CertificateRequestConditionDenied,
}

// validateDecision requires that a request is decided only once: either
// approved or denied.
func validateDecision(conditions []cmv1.CertificateRequestCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	decided := 0
	for _, kind := range decisions {
		found := conditionsOf(conditions, kind)
		if len(found) > 0 {
			decided++
		}
		switch {
		case len(found) > 1:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("multiple %q conditions present", kind)))
		case len(found) == 1 && found[0].Status != "True":
			errs = append(errs, field.Invalid(path.Child(string(kind)), found[0].Status, fmt.Sprintf("%q condition may only be set to True", kind)))
		}
	}
	if decided == len(decisions) {
		errs = append(errs, field.Forbidden(path, "both 'Denied' and 'Approved' conditions cannot coexist"))
	}
	return errs
}

// validateDecisionChange refuses every change of a decision, even of its time.
func validateDecisionChange(conditions, old []cmv1.CertificateRequestCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range decisions {
		before := conditionsOf(old, kind)
		if len(before) == 0 {
			continue
		}
		if after := conditionsOf(conditions, kind); len(after) == 0 || !apiequality.Semantic.DeepEqual(before[0], after[0]) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("'%s' condition may not be modified once set", kind)))
		}
	}
	return append(errs, validateDecision(conditions, path)...)
}

func conditionsOf(conditions []cmv1.CertificateRequestCondition, kind cmv1.CertificateRequestConditionType) []cmv1.CertificateRequestCondition {
	var found []cmv1.CertificateRequestCondition
	for _, c := range conditions {
		if c.Type == kind {
			found = append(found, c)
		}
	}
	return found
}

// IsDecision reports whether cr is approved or denied and old, of the same
// name, is not.
func IsDecision(cr, old *cmv1.CertificateRequest) bool {
	for _, kind := range decisions {
		if RequestCondition(cr, kind) != nil && RequestCondition(old, kind) == nil {
			return true
		}
	}
	return false
}
