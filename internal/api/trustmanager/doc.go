// Package trustmanager implements the kind Bundle of trust-manager, group
// trust.cert-manager.io.
//
// Its fields and their schema are the same as in trust-manager v0.25, so that objects written
// for it are read without loss.
//
// +kubebuilder:object:generate=true
// +groupName=trust.cert-manager.io
// +versionName=v1alpha1
package trustmanager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group of trust-manager.
	GroupName = "trust.cert-manager.io"
	// Kind is the kind of Bundles, and Resource their resource.
	Kind, Resource = "Bundle", "bundles"
	// BundleLabel is the label of a target with the name of its Bundle.
	BundleLabel = GroupName + "/bundle"
	// HashAnnotation is the annotation of a target with the hash of its content.
	HashAnnotation = GroupName + "/hash"
	// ConditionSynced reports whether all targets are up to date. It is also its reason.
	ConditionSynced = "Synced"
	// WebhookName is the name of the webhook that validates Bundles.
	WebhookName = GroupName
)

// GroupVersion is the version that this package describes.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Bundle{}, &BundleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
