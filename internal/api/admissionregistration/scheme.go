// Package admissionregistration has the defaults and the validation of the
// objects of admissionregistration.k8s.io.
package admissionregistration

import (
	"fmt"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers the six kinds in v1. The v1 types are also the internal types, so
// conversions are not needed.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: v1.GroupName, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{v1.SchemeGroupVersion, internal} {
		scheme.AddKnownTypes(gv,
			&v1.MutatingAdmissionPolicy{}, &v1.MutatingAdmissionPolicyList{},
			&v1.MutatingAdmissionPolicyBinding{}, &v1.MutatingAdmissionPolicyBindingList{},
			&v1.MutatingWebhookConfiguration{}, &v1.MutatingWebhookConfigurationList{},
			&v1.ValidatingAdmissionPolicy{}, &v1.ValidatingAdmissionPolicyList{},
			&v1.ValidatingAdmissionPolicyBinding{}, &v1.ValidatingAdmissionPolicyBindingList{},
			&v1.ValidatingWebhookConfiguration{}, &v1.ValidatingWebhookConfigurationList{},
		)
	}
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	addDefaults(scheme)
	if err := scheme.SetVersionPriority(v1.SchemeGroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", v1.GroupName, err)
	}
	return nil
}
