package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

// maxTimeoutSeconds is half of the time that a request may take.
const maxTimeoutSeconds = 30

// reviewVersions are the versions of AdmissionReview that the server supports.
var reviewVersions = []string{"v1", "v1beta1"}

// hook contains the common fields of mutating and validating webhooks; reinvocation is nil
// for validating ones.
type hook struct {
	name                string
	client              v1.WebhookClientConfig
	rules               []v1.RuleWithOperations
	onFailure           *v1.FailurePolicyType
	matchPolicy         *v1.MatchPolicyType
	namespaces, objects *metav1.LabelSelector
	sideEffects         *v1.SideEffectClass
	timeoutSeconds      *int32
	reviewVersions      []string
	conditions          []v1.MatchCondition
	reinvocation        *v1.ReinvocationPolicyType
}

func mutatingHooks(c *v1.MutatingWebhookConfiguration) []hook {
	var hooks []hook
	for _, h := range c.Webhooks {
		hooks = append(hooks, hook{
			name: h.Name, client: h.ClientConfig, rules: h.Rules, onFailure: h.FailurePolicy,
			matchPolicy: h.MatchPolicy, namespaces: h.NamespaceSelector, objects: h.ObjectSelector,
			sideEffects: h.SideEffects, timeoutSeconds: h.TimeoutSeconds,
			reviewVersions: h.AdmissionReviewVersions, conditions: h.MatchConditions,
			reinvocation: h.ReinvocationPolicy,
		})
	}
	return hooks
}

func validatingHooks(c *v1.ValidatingWebhookConfiguration) []hook {
	var hooks []hook
	for _, h := range c.Webhooks {
		hooks = append(hooks, hook{
			name: h.Name, client: h.ClientConfig, rules: h.Rules, onFailure: h.FailurePolicy,
			matchPolicy: h.MatchPolicy, namespaces: h.NamespaceSelector, objects: h.ObjectSelector,
			sideEffects: h.SideEffects, timeoutSeconds: h.TimeoutSeconds,
			reviewVersions: h.AdmissionReviewVersions, conditions: h.MatchConditions,
		})
	}
	return hooks
}

func validateHooks(hooks []hook, known expressions) field.ErrorList {
	path := field.NewPath("webhooks")
	var errs field.ErrorList
	for i, h := range hooks {
		errs = append(errs, h.validate(path.Index(i), known)...)
	}
	names := func(i int) *field.Path { return path.Index(i).Child("name") }
	return append(errs, unique(names, hooks, func(h hook) string { return h.name })...)
}

func (h hook) validate(path *field.Path, known expressions) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(path.Child("name"), h.name)
	errs = append(errs, validateRules(path.Child("rules"), h.rules)...)
	errs = append(errs, oneOf(path.Child("failurePolicy"), h.onFailure, v1.Fail, v1.Ignore)...)
	errs = append(errs, oneOf(path.Child("matchPolicy"), h.matchPolicy, v1.Equivalent, v1.Exact)...)
	errs = append(errs, oneOf(path.Child("reinvocationPolicy"), h.reinvocation, v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
	errs = append(errs, h.validateSideEffects(path.Child("sideEffects"))...)
	if t := h.timeoutSeconds; t != nil && (*t < 1 || *t > maxTimeoutSeconds) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, fmt.Sprintf("the timeout value must be between 1 and %d seconds", maxTimeoutSeconds)))
	}
	if h.namespaces != nil {
		errs = append(errs, validateSelector(path.Child("namespaceSelector"), h.namespaces)...)
	}
	if h.objects != nil {
		errs = append(errs, validateSelector(path.Child("objectSelector"), h.objects)...)
	}
	errs = append(errs, validateClient(path.Child("clientConfig"), h.client)...)
	errs = append(errs, validateConditions(path.Child("matchConditions"), h.conditions, withoutParams, known)...)
	return append(errs, validateReviewVersions(path.Child("admissionReviewVersions"), h.reviewVersions)...)
}

// validateSideEffects requires that a dry run may call the webhook, or that the
// webhook recognizes a dry run.
func (h hook) validateSideEffects(path *field.Path) field.ErrorList {
	allowed := []v1.SideEffectClass{v1.SideEffectClassNone, v1.SideEffectClassNoneOnDryRun}
	if h.sideEffects == nil {
		return field.ErrorList{field.Required(path, fmt.Sprintf("must specify one of %s, %s", allowed[0], allowed[1]))}
	}
	return oneOf(path, h.sideEffects, allowed...)
}

func validateClient(path *field.Path, client v1.WebhookClientConfig) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case client.URL != nil:
		return webhook.ValidateWebhookURL(path.Child("url"), *client.URL, true)
	}
	service := client.Service
	var port int32
	if service.Port != nil {
		port = *service.Port
	}
	return webhook.ValidateWebhookService(path.Child("service"), service.Name, service.Namespace, service.Path, port)
}

func validateReviewVersions(path *field.Path, versions []string) field.ErrorList {
	known := strings.Join(reviewVersions, ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+known)}
	}
	var errs field.ErrorList
	understood := false
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			errs = append(errs, field.Invalid(path.Index(i), version, "duplicate version"))
			continue
		}
		for _, msg := range utilvalidation.IsDNS1035Label(version) {
			errs = append(errs, field.Invalid(path.Index(i), version, msg))
		}
		understood = understood || slices.Contains(reviewVersions, version)
	}
	if !understood {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+known))
	}
	return errs
}
