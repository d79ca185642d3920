package admission

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	predicates "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/client-go/informers"
	admissionregistration "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
)

// configurable are the library's plugins, which users configure by objects. Each has the
// informer of these objects.
var configurable = map[string]func(admissionregistration.Interface) cache.SharedIndexInformer{
	"MutatingAdmissionPolicy": func(all admissionregistration.Interface) cache.SharedIndexInformer {
		return all.MutatingAdmissionPolicies().Informer()
	},
	"MutatingAdmissionWebhook": func(all admissionregistration.Interface) cache.SharedIndexInformer {
		return all.MutatingWebhookConfigurations().Informer()
	},
	"ValidatingAdmissionPolicy": func(all admissionregistration.Interface) cache.SharedIndexInformer {
		return all.ValidatingAdmissionPolicies().Informer()
	},
	"ValidatingAdmissionWebhook": func(all admissionregistration.Interface) cache.SharedIndexInformer {
		return all.ValidatingWebhookConfigurations().Informer()
	},
}

// configured has the objects with which users configure the library's plugins. It reads the
// informers of the plugins, so these do not know an object earlier.
type configured struct {
	plugins []string // those that are on
	objects map[string]cache.SharedIndexInformer
}

var (
	_ initializer.WantsExternalKubeInformerFactory = &configured{}
	_ admission.Decorator                          = &configured{}
)

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (c *configured) SetExternalKubeInformerFactory(all informers.SharedInformerFactory) {
	c.objects = map[string]cache.SharedIndexInformer{}
	for _, name := range c.plugins {
		if informer, ok := configurable[name]; ok {
			c.objects[name] = informer(all.Admissionregistration().V1())
		}
	}
}

// ValidateInitialization returns an error if it cannot be known what users configure.
func (c *configured) ValidateInitialization() error {
	for _, name := range c.plugins {
		if configurable[name] != nil && c.objects[name] == nil {
			return fmt.Errorf("%s needs informers", name)
		}
	}
	return nil
}

// Handles implements admission.Interface, which an initializer takes: configured is no plugin.
func (*configured) Handles(admission.Operation) bool { return false }

// Decorate implements admission.Decorator.
func (c *configured) Decorate(handler admission.Interface, name string) admission.Interface {
	objects, ok := c.objects[name]
	if !ok {
		return handler
	}
	switch plugin := handler.(type) {
	case admission.MutationInterface:
		return mutatesIfUsed{plugin, objects}
	case admission.ValidationInterface:
		return validatesIfUsed{plugin, objects}
	}
	return handler
}

// mutatesIfUsed asks one of the library's plugins only if there may be objects that configure
// it. With each request, such a plugin copies the object and makes a timer and an informer.
type mutatesIfUsed struct {
	admission.MutationInterface
	objects cache.SharedIndexInformer
}

// Admit implements admission.MutationInterface.
func (u mutatesIfUsed) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if isUnused(u.objects) {
		return nil
	}
	return u.MutationInterface.Admit(ctx, a, o)
}

// validatesIfUsed is a mutatesIfUsed for a plugin that validates: metrics count a plugin for
// everything that it implements.
type validatesIfUsed struct {
	admission.ValidationInterface
	objects cache.SharedIndexInformer
}

// Validate implements admission.ValidationInterface.
func (u validatesIfUsed) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if isUnused(u.objects) {
		return nil
	}
	return u.ValidationInterface.Validate(ctx, a, o)
}

func isUnused(objects cache.SharedIndexInformer) bool {
	return objects.HasSynced() && len(objects.GetStore().ListKeys()) == 0
}

// mayConcern reports whether a policy or a webhook may be about updates of a subresource. It
// ignores all that makes them choose among the objects of a resource, and among its versions.
func (c *configured) mayConcern(resource schema.GroupResource, subresource string) bool {
	update := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", resource.WithVersion(""), subresource, admission.Update, nil, false, nil)
	for _, objects := range c.objects {
		if !objects.HasSynced() {
			return true
		}
		for _, object := range objects.GetStore().List() {
			for _, rule := range rulesOf(object) {
				rule.APIVersions, rule.Scope = []string{"*"}, nil
				if (&predicates.Matcher{Rule: rule, Attr: update}).Matches() {
					return true
				}
			}
		}
	}
	return false
}

// rulesOf returns the rules of an object with which users configure a plugin.
func rulesOf(object any) (found []admissionregistrationv1.RuleWithOperations) {
	var match *admissionregistrationv1.MatchResources
	switch object := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, webhook := range object.Webhooks {
			found = append(found, webhook.Rules...)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, webhook := range object.Webhooks {
			found = append(found, webhook.Rules...)
		}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		match = object.Spec.MatchConstraints
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		match = object.Spec.MatchConstraints
	}
	if match != nil {
		for _, rule := range match.ResourceRules {
			found = append(found, rule.RuleWithOperations)
		}
	}
	return found
}
