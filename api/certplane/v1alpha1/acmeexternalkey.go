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
	// serviceAccount is the ServiceAccount of this namespace as which the accounts act.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serviceAccount is immutable"
	ServiceAccount string `json:"serviceAccount"`
	// secret is the Secret that contains the key. If it is missing, certplane creates it
	// with a random key.
	Secret AcmeSecret `json:"secret"`
	// identifiers restricts the endpoint's identifiers further. Types of identifiers
	// without an allowed value are refused.
	//
	// +optional
	Identifiers *AcmeIdentifierSet `json:"identifiers,omitempty"`
	// preauthorized are names and addresses that need no challenge: the key is the proof.
	// Setting them requires the verb preauthorize on the endpoint.
	//
	// +optional
	Preauthorized *AcmePreauthorized `json:"preauthorized,omitempty"`
	// profiles are the endpoint's profiles that accounts may use. Default: all.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=32
	// +listType=set
	// +optional
	Profiles []string `json:"profiles,omitempty"`
	// maxAccounts is the maximum number of accounts for the key. 0: no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxAccounts int32 `json:"maxAccounts,omitempty"`
	// expires is when the key expires. No accounts can be created after that time.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// requireAlways ends the accounts when the key is revoked or deleted. If false, the key
	// is needed only to create an account.
	//
	// +kubebuilder:default=true
	RequireAlways *bool `json:"requireAlways,omitempty"`
	// revoked revokes the key.
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
	// dns are names, and patterns such as *.shop.corp.example for all names below
	// shop.corp.example.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	DNS []string `json:"dns,omitempty"`
	// wildcards also permits wildcard certificates for these names.
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
	// kid is the key identifier for clients.
	//
	// +optional
	KID string `json:"kid,omitempty"`
	// directory is the directory URL for clients.
	//
	// +optional
	Directory string `json:"directory,omitempty"`
	// accounts is the number of accounts that were created with the key.
	//
	// +optional
	Accounts int32 `json:"accounts,omitempty"`
	// lastUsed is when the last account was created with the key.
	//
	// +optional
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
	// conditions: Ready reports whether accounts can be created with the key, and why not.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
