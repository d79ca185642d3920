package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Defaults of the two numbers in a webhook.
const (
	defaultTimeoutSeconds int32 = 10
	defaultServicePort    int32 = 443
)

func addDefaults(scheme *runtime.Scheme) {
	add(scheme, defaultMutatingPolicy, func(l *v1.MutatingAdmissionPolicyList) []v1.MutatingAdmissionPolicy { return l.Items })
	add(scheme, defaultMutatingBinding, func(l *v1.MutatingAdmissionPolicyBindingList) []v1.MutatingAdmissionPolicyBinding { return l.Items })
	add(scheme, defaultMutatingWebhooks, func(l *v1.MutatingWebhookConfigurationList) []v1.MutatingWebhookConfiguration { return l.Items })
	add(scheme, defaultValidatingPolicy, func(l *v1.ValidatingAdmissionPolicyList) []v1.ValidatingAdmissionPolicy { return l.Items })
	add(scheme, defaultValidatingBinding, func(l *v1.ValidatingAdmissionPolicyBindingList) []v1.ValidatingAdmissionPolicyBinding { return l.Items })
	add(scheme, defaultValidatingWebhooks, func(l *v1.ValidatingWebhookConfigurationList) []v1.ValidatingWebhookConfiguration { return l.Items })
}

// object is a pointer to T that is an API object.
type object[T any] interface {
	*T
	runtime.Object
}

// add registers the defaults of a kind and of its list.
func add[T, L any, P object[T], LP object[L]](scheme *runtime.Scheme, set func(P), items func(LP) []T) {
	scheme.AddTypeDefaultingFunc(P(new(T)), func(obj any) { set(obj.(P)) })
	scheme.AddTypeDefaultingFunc(LP(new(L)), func(obj any) {
		list := items(obj.(LP))
		for i := range list {
			set(&list[i])
		}
	})
}

func defaultMutatingWebhooks(c *v1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		hook := &c.Webhooks[i]
		setDefault(&hook.ReinvocationPolicy, v1.NeverReinvocationPolicy)
		defaultHook(&hook.ClientConfig, hook.Rules, &hook.FailurePolicy, &hook.TimeoutSeconds)
		defaultMatching(&hook.MatchPolicy, &hook.NamespaceSelector, &hook.ObjectSelector)
	}
}

func defaultValidatingWebhooks(c *v1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		hook := &c.Webhooks[i]
		defaultHook(&hook.ClientConfig, hook.Rules, &hook.FailurePolicy, &hook.TimeoutSeconds)
		defaultMatching(&hook.MatchPolicy, &hook.NamespaceSelector, &hook.ObjectSelector)
	}
}

func defaultHook(client *v1.WebhookClientConfig, rules []v1.RuleWithOperations, onFailure **v1.FailurePolicyType, timeout **int32) {
	setDefault(onFailure, v1.Fail)
	setDefault(timeout, defaultTimeoutSeconds)
	if client.Service != nil {
		setDefault(&client.Service.Port, defaultServicePort)
	}
	for i := range rules {
		setDefault(&rules[i].Scope, v1.AllScopes)
	}
}

func defaultMutatingPolicy(p *v1.MutatingAdmissionPolicy) {
	setDefault(&p.Spec.FailurePolicy, v1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultValidatingPolicy(p *v1.ValidatingAdmissionPolicy) {
	setDefault(&p.Spec.FailurePolicy, v1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultMutatingBinding(b *v1.MutatingAdmissionPolicyBinding) {
	defaultMatch(b.Spec.MatchResources)
}

func defaultValidatingBinding(b *v1.ValidatingAdmissionPolicyBinding) {
	defaultMatch(b.Spec.MatchResources)
}

func defaultMatch(match *v1.MatchResources) {
	if match == nil {
		return
	}
	defaultMatching(&match.MatchPolicy, &match.NamespaceSelector, &match.ObjectSelector)
	for _, rules := range [][]v1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		for i := range rules {
			setDefault(&rules[i].Scope, v1.AllScopes)
		}
	}
}

// defaultMatching sets absent selectors so that they select everything.
func defaultMatching(policy **v1.MatchPolicyType, namespaces, objects **metav1.LabelSelector) {
	setDefault(policy, v1.Equivalent)
	setDefault(namespaces, metav1.LabelSelector{})
	setDefault(objects, metav1.LabelSelector{})
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
