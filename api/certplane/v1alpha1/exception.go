package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertificatePolicyException exempts some requests from some conditions of
// policies for a limited time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=certificatepolicyexceptions,scope=Cluster,shortName=cpolx,categories=certplane
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.spec.policies`
// +kubebuilder:printcolumn:name="Items",type=string,JSONPath=`.spec.items`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.notAfter`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CertificatePolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CertificatePolicyExceptionSpec `json:"spec"`
	// +optional
	Status CertificatePolicyExceptionStatus `json:"status,omitempty"`
}

// CertificatePolicyExceptionList is a list of CertificatePolicyExceptions.
//
// +kubebuilder:object:root=true
type CertificatePolicyExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CertificatePolicyException `json:"items"`
}

// CertificatePolicyExceptionSpec is the specification of an exception. Whoever
// creates or changes it needs the verb except on each of the policies.
type CertificatePolicyExceptionSpec struct {
	// policies are the names of the policies.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Policies []string `json:"policies"`
	// items are the conditions that need not hold, by their addresses in the
	// policy, such as certificate.names.dns or rules[no-wildcards]. That a
	// certificate is no CA's, that the request can be read, and the approval of
	// people cannot be excepted.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Items []string `json:"items"`
	// match says for which requests. It must name requesters or namespaces.
	Match PolicyMatch `json:"match"`
	// values limits the exception to these values, such as one DNS name.
	// Default: any value.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`
	// reason says why, for people.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// notAfter is when the exception ends, at most 90 days ahead. It is deleted
	// 30 days later.
	NotAfter metav1.Time `json:"notAfter"`
}

// CertificatePolicyExceptionStatus is the observed state of an exception.
type CertificatePolicyExceptionStatus struct {
	// conditions: Ready says whether the exception is in force, and why not;
	// Proposed, whether there is a change that too few people have written.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// remaining is how long the exception lasts, in words.
	//
	// +optional
	Remaining string `json:"remaining,omitempty"`
}
