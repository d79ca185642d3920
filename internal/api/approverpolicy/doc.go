// Package approverpolicy implements the kind CertificateRequestPolicy of approver-policy,
// group policy.cert-manager.io.
//
// Its fields and their schema are the same as in approver-policy v0.28, so that objects
// written for it are read without loss.
//
// +kubebuilder:object:generate=true
// +groupName=policy.cert-manager.io
// +versionName=v1alpha1
package approverpolicy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of approver-policy. It is also the reason of its
// conditions and the name of its webhook.
const GroupName = "policy.cert-manager.io"

// Kind is the kind of CertificateRequestPolicies.
const Kind = "CertificateRequestPolicy"

// Resource is the resource of CertificateRequestPolicies. Requesters need the verb "use" on
// it.
const Resource = "certificaterequestpolicies"

// GroupVersion is the version that this package describes.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CertificateRequestPolicy{}, &CertificateRequestPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
