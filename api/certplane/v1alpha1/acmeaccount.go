package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AcmeAccount is an account of an ACME client. It acts as a ServiceAccount. The
// ACME server makes it; people approve and revoke it with spec.decision.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.serviceAccount.namespace`
// +kubebuilder:printcolumn:name="Service Account",type=string,JSONPath=`.spec.serviceAccount.name`
// +kubebuilder:printcolumn:name="External Key",type=string,JSONPath=`.spec.externalKey.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`
// +kubebuilder:printcolumn:name="Last Seen",type=string,JSONPath=`.status.lastSeen`
// +kubebuilder:printcolumn:name="Contacts",type=string,JSONPath=`.status.contacts`,priority=1
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.initialAddress`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AcmeAccount struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AcmeAccountSpec `json:"spec"`
	// +optional
	Status AcmeAccountStatus `json:"status,omitempty"`
}

// AcmeAccountList is a list of AcmeAccounts.
//
// +kubebuilder:object:root=true
type AcmeAccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AcmeAccount `json:"items"`
}

// AcmeDecision is what people decided about an account.
type AcmeDecision string

// What people can decide about an account.
const (
	AcmeDecisionApproved AcmeDecision = "Approved"
	AcmeDecisionRevoked  AcmeDecision = "Revoked"
)

// AcmeAccountSpec says whose account it is. All but the decision is immutable.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint == oldSelf.endpoint && self.serviceAccount == oldSelf.serviceAccount && has(self.externalKey) == has(oldSelf.externalKey) && (!has(self.externalKey) || self.externalKey == oldSelf.externalKey)",message="only decision and decisionReason can change"
type AcmeAccountSpec struct {
	// endpoint is the name of the AcmeEndpoint.
	//
	// +kubebuilder:validation:MaxLength=40
	Endpoint string `json:"endpoint"`
	// serviceAccount is whom the account acts as.
	ServiceAccount AcmeServiceAccount `json:"serviceAccount"`
	// externalKey is the AcmeExternalKey with which the account was made.
	//
	// +optional
	ExternalKey *AcmeExternalKeyReference `json:"externalKey,omitempty"`
	// decision is Approved or Revoked. Whoever sets it needs the verb approve on
	// the endpoint. An account whose decision is Revoked can do nothing.
	//
	// +kubebuilder:validation:Enum="";Approved;Revoked
	// +optional
	Decision AcmeDecision `json:"decision,omitempty"`
	// decisionReason says why, for people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	DecisionReason string `json:"decisionReason,omitempty"`
}

// AcmeExternalKeyReference refers to an AcmeExternalKey.
type AcmeExternalKeyReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// requireAlways is that of the key when the account was made. It counts once
	// the key is deleted. Default: true.
	//
	// +optional
	RequireAlways *bool `json:"requireAlways,omitempty"`
}

// AcmeAccountState is the state of an account.
//
// +kubebuilder:validation:Enum=valid;deactivated;revoked
type AcmeAccountState string

// The states of an account (RFC 8555 section 7.1.6).
const (
	AcmeAccountValid       AcmeAccountState = "valid"
	AcmeAccountDeactivated AcmeAccountState = "deactivated"
	AcmeAccountRevoked     AcmeAccountState = "revoked"
)

// AcmeAccountStatus is the state of an account.
type AcmeAccountStatus struct {
	// state is valid; deactivated by the client; or revoked by us.
	//
	// +optional
	State AcmeAccountState `json:"state,omitempty"`
	// key is the name of the AcmeAccountKey in force.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
	// contacts are URLs such as mailto:ops@example.com.
	//
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=261
	// +listType=atomic
	// +optional
	Contacts []string `json:"contacts,omitempty"`
	// agreed are the terms of service that the client has agreed to.
	//
	// +optional
	Agreed *AcmeAgreement `json:"agreed,omitempty"`
	// externalAccountBinding is the binding as the client has sent it, which the
	// protocol shows to it.
	//
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	ExternalAccountBinding string `json:"externalAccountBinding,omitempty"`
	// ended is when the account was deactivated or revoked.
	//
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// ordered is set once the account has ordered.
	//
	// +optional
	Ordered bool `json:"ordered,omitempty"`
	// lastSeen is the day of the last request.
	//
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// newOrders are the orders of the last minute. They count for limits from before they
	// are made, also at servers that do not see them yet.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	// +optional
	NewOrders []AcmeNewOrder `json:"newOrders,omitempty"`
	// initialAddress is from where the account was made.
	//
	// +kubebuilder:validation:MaxLength=45
	// +optional
	InitialAddress string `json:"initialAddress,omitempty"`
}

// AcmeNewOrder is an order that is being made, or was made a moment ago.
type AcmeNewOrder struct {
	// name is that of the AcmeOrder.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// time is when the client has ordered.
	Time metav1.Time `json:"time"`
	// replaces is set if the order replaces a certificate.
	//
	// +optional
	Replaces bool `json:"replaces,omitempty"`
}

// AcmeAgreement is the agreement of a client to terms of service.
type AcmeAgreement struct {
	// +kubebuilder:validation:MaxLength=2000
	URL  string      `json:"url"`
	Time metav1.Time `json:"time"`
}

// AcmeAccountKey is a key that an account has or had. Its name is the endpoint's,
// a dot, and the key's thumbprint (RFC 7638) in base32, so that no two accounts of
// an endpoint can have one key. The ACME server makes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.account`
// +kubebuilder:printcolumn:name="Retired",type=date,JSONPath=`.spec.retired`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AcmeAccountKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AcmeAccountKeySpec `json:"spec"`
}

// AcmeAccountKeyList is a list of AcmeAccountKeys.
//
// +kubebuilder:object:root=true
type AcmeAccountKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AcmeAccountKey `json:"items"`
}

// AcmeAccountKeySpec is a key and whose it is.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint == oldSelf.endpoint && self.account == oldSelf.account && self.jwk == oldSelf.jwk",message="only retired can change"
type AcmeAccountKeySpec struct {
	// +kubebuilder:validation:MaxLength=40
	Endpoint string `json:"endpoint"`
	// account is the name of the AcmeAccount.
	//
	// +kubebuilder:validation:MaxLength=63
	Account string `json:"account"`
	// jwk is the key as a JSON Web Key (RFC 7517).
	//
	// +kubebuilder:validation:MaxLength=4096
	JWK string `json:"jwk"`
	// retired is when the account got another key. The key is not accepted again.
	//
	// +optional
	Retired *metav1.Time `json:"retired,omitempty"`
}
