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

// CertificatePolicyExceptionSpec is the specification of an exception. Creating or changing
// it requires the verb except on each of the policies.
type CertificatePolicyExceptionSpec struct {
	// policies are the names of the policies.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Policies []string `json:"policies"`
	// items are the addresses of conditions in the policy that need not hold, such as
	// certificate.names.dns or rules[no-wildcards]. Three conditions cannot be excepted:
	// the ban on CA certificates, the readability of the request, and the approval by
	// people.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Items []string `json:"items"`
	// match selects the requests. It must set requesters or namespaces.
	Match PolicyMatch `json:"match"`
	// values limits the exception to these values, such as one DNS name.
	// Default: any value.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`
	// reason explains the exception to people.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// notAfter is when the exception expires, at most 90 days ahead. The exception is
	// deleted 30 days later.
	NotAfter metav1.Time `json:"notAfter"`
}

// CertificatePolicyExceptionStatus is the observed state of an exception.
type CertificatePolicyExceptionStatus struct {
	// conditions: Ready reports whether the exception is in force, and why not. Proposed
	// reports whether a change waits for more people to write it.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// remaining is the time until the exception expires, in words.
	//
	// +optional
	Remaining string `json:"remaining,omitempty"`
}
