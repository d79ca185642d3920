// Package v1alpha1 contains the kinds of the sample issuer.
//
// +kubebuilder:object:generate=true
// +groupName=sample-issuer.example.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of these kinds.
var GroupVersion = schema.GroupVersion{Group: "sample-issuer.example.com", Version: "v1alpha1"}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &SampleIssuer{}, &SampleIssuerList{}, &SampleClusterIssuer{}, &SampleClusterIssuerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// IssuerSpec says where the CA is and for whom it signs.
type IssuerSpec struct {
	// secretName is a Secret of the type kubernetes.io/tls with the CA: its
	// certificate in tls.crt, its key in tls.key. It is in the namespace of the
	// SampleIssuer; those of SampleClusterIssuers are in one namespace that the
	// controller's flag --cluster-secret-namespace names.
	//
	// +kubebuilder:validation:MinLength=1
	SecretName string `json:"secretName"`
	// domains are those under which certificates can have names. None means any.
	//
	// +listType=set
	// +optional
	Domains []string `json:"domains,omitempty"`
}

// IssuerStatus says whether the CA can be used.
type IssuerStatus struct {
	// conditions has one entry, of the type Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SampleIssuer signs for its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=cert-manager
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Status,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type SampleIssuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IssuerSpec   `json:"spec"`
	Status IssuerStatus `json:"status,omitempty"`
}

// SampleIssuerList is a list of SampleIssuers.
//
// +kubebuilder:object:root=true
type SampleIssuerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SampleIssuer `json:"items"`
}

// SampleClusterIssuer signs for all namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=cert-manager
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Status,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type SampleClusterIssuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IssuerSpec   `json:"spec"`
	Status IssuerStatus `json:"status,omitempty"`
}

// SampleClusterIssuerList is a list of SampleClusterIssuers.
//
// +kubebuilder:object:root=true
type SampleClusterIssuerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SampleClusterIssuer `json:"items"`
}

// GetConditions implements issuer.Issuer.
func (i *SampleIssuer) GetConditions() []metav1.Condition { return i.Status.Conditions }

// GetConditions implements issuer.Issuer.
func (i *SampleClusterIssuer) GetConditions() []metav1.Condition { return i.Status.Conditions }
