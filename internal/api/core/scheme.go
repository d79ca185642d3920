// Package core has the defaults and the validation of the objects of the core
// API group.
package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers the served kinds except Event, which has its own package. The v1
// types are also the internal types, so conversions are not needed.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: corev1.GroupName, Version: runtime.APIVersionInternal}
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, internal} {
		scheme.AddKnownTypes(gv,
			&corev1.ConfigMap{}, &corev1.ConfigMapList{},
			&corev1.Namespace{}, &corev1.NamespaceList{},
			&corev1.Node{}, &corev1.NodeList{},
			&corev1.Pod{}, &corev1.PodList{},
			&corev1.Secret{}, &corev1.SecretList{},
			&corev1.Service{}, &corev1.ServiceList{},
			&corev1.ServiceAccount{}, &corev1.ServiceAccountList{},
		)
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	addDefaults(scheme)
	if err := addFieldLabels(scheme); err != nil {
		return fmt.Errorf("registering the selectable fields of core kinds: %w", err)
	}
	if err := scheme.SetVersionPriority(corev1.SchemeGroupVersion); err != nil {
		return fmt.Errorf("ordering the versions of the core group: %w", err)
	}
	return nil
}
