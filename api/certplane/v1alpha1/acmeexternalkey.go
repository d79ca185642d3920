package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AcmeExternalKey is a key with which clients bind their ACME accounts to a
// ServiceAccount of its namespace (external account binding, RFC 8555 section
// 7.3.4). Its key identifier is <namespace>.<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`
// +kubebuilder:printcolumn:name="Key ID",type=string,JSONPath=`.status.kid`
// +kubebuilder:printcolumn:name="Service Account",type=string,JSONPath=`.spec.serviceAccount`
// +kubebuilder:printcolumn:name="Accounts",type=integer,JSONPath=`.status.accounts`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expires`,priority=1
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AcmeExternalKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AcmeExternalKeySpec `json:"spec"`
	// +optional
	Status AcmeExternalKeyStatus `json:"status,omitempty"`
}

// AcmeExternalKeyList is a list of AcmeExternalKeys.
//
// +kubebuilder:object:root=true
type AcmeExternalKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AcmeExternalKey `json:"items"`
}

// AcmeExternalKeySpec is the specification of a key.
type AcmeExternalKeySpec struct {
	// endpoint is the name of the AcmeEndpoint.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="endpoint is immutable"
	Endpoint string `json:"endpoint"`
	// serviceAccount is whom the accounts act as: a ServiceAccount of this
	// namespace.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serviceAccount is immutable"
	ServiceAccount string `json:"serviceAccount"`
	// secret has the key. It is created, with a random key, if it is missing.
	Secret AcmeSecret `json:"secret"`
	// identifiers narrows those of the endpoint. A type of which it allows nothing
	// is refused.
	//
	// +optional
	Identifiers *AcmeIdentifierSet `json:"identifiers,omitempty"`
	// preauthorized are names and addresses that need no challenge: the key is
	// their proof. Whoever sets them needs the verb preauthorize on the endpoint.
	//
	// +optional
	Preauthorized *AcmePreauthorized `json:"preauthorized,omitempty"`
	// profiles are those of the endpoint that accounts may use. Default: all.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=32
	// +listType=set
	// +optional
	Profiles []string `json:"profiles,omitempty"`
	// maxAccounts is how many accounts the key can be used for. Default: any
	// number.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxAccounts int32 `json:"maxAccounts,omitempty"`
	// expires is when the key ends: no accounts are made from then on.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// requireAlways has accounts end with the key, when it is revoked or deleted.
	// With false, the key is only needed to make an account.
	//
	// +kubebuilder:default=true
	RequireAlways *bool `json:"requireAlways,omitempty"`
	// revoked ends the key.
	//
	// +optional
	Revoked bool `json:"revoked,omitempty"`
}

// AcmeSecret refers to an entry of a Secret in the same namespace.
type AcmeSecret struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key is the entry: at least 32 bytes as base64url text without padding.
	//
	// +kubebuilder:default=hmac
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// AcmeIdentifierSet is a set of names and addresses.
type AcmeIdentifierSet struct {
	// +optional
	DNS *AcmeDNSNames `json:"dns,omitempty"`
	// +optional
	IP *AcmeAddresses `json:"ip,omitempty"`
}

// AcmePreauthorized are names and addresses that need no challenge.
type AcmePreauthorized struct {
	// dns are names, and patterns such as *.shop.corp.example for the names below
	// it.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	DNS []string `json:"dns,omitempty"`
	// wildcards says whether they include wildcards.
	//
	// +optional
	Wildcards bool `json:"wildcards,omitempty"`
	// ip are addresses and networks.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	IP []string `json:"ip,omitempty"`
}

// AcmeExternalKeyStatus is the observed state of a key.
type AcmeExternalKeyStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// kid is the key identifier that clients are given.
	//
	// +optional
	KID string `json:"kid,omitempty"`
	// directory is the URL that clients are given.
	//
	// +optional
	Directory string `json:"directory,omitempty"`
	// accounts is how many accounts were made with the key.
	//
	// +optional
	Accounts int32 `json:"accounts,omitempty"`
	// lastUsed is when the last account was made.
	//
	// +optional
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
	// conditions: Ready says whether accounts can be made with the key, and why
	// not.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
