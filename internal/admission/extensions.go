package admission

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Webhooks and policies are the library's plugins. Creating one fails only for an
// invalid configuration file, and here none has a file.

func newMutatingPolicy(authorizer.UnconditionalAuthorizer) admission.Interface {
	plugin, err := mutatingpolicy.NewPlugin(nil)
	utilruntime.Must(err)
	return keyKeepingPolicy{plugin, newPolicySchemas()}
}

func newMutatingWebhook(authorizer.UnconditionalAuthorizer) admission.Interface {
	plugin, err := mutatingwebhook.NewMutatingWebhook(nil)
	utilruntime.Must(err)
	return keyKeepingWebhook{plugin}
}

func newValidatingPolicy(authorizer.UnconditionalAuthorizer) admission.Interface {
	plugin, err := validatingpolicy.NewPlugin(nil)
	utilruntime.Must(err)
	return plugin
}

func newValidatingWebhook(authorizer.UnconditionalAuthorizer) admission.Interface {
	plugin, err := validatingwebhook.NewValidatingAdmissionWebhook(nil)
	utilruntime.Must(err)
	return plugin
}
