package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AcmeAccount is an account of an ACME client, which acts as a ServiceAccount. The ACME
// server creates it; people approve and revoke it with spec.decision.
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

// AcmeDecision is a decision by a person about an account.
type AcmeDecision string

// Decisions about an account.
const (
	AcmeDecisionApproved AcmeDecision = "Approved"
	AcmeDecisionRevoked  AcmeDecision = "Revoked"
)

// AcmeAccountSpec identifies the owner of an account. Only decision and decisionReason can
// change.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint == oldSelf.endpoint && self.serviceAccount == oldSelf.serviceAccount && has(self.externalKey) == has(oldSelf.externalKey) && (!has(self.externalKey) || self.externalKey == oldSelf.externalKey)",message="only decision and decisionReason can change"
type AcmeAccountSpec struct {
	// endpoint is the name of the AcmeEndpoint.
	//
	// +kubebuilder:validation:MaxLength=40
	Endpoint string `json:"endpoint"`
	// serviceAccount is the ServiceAccount as which the account acts.
	ServiceAccount AcmeServiceAccount `json:"serviceAccount"`
	// externalKey is the AcmeExternalKey with which the account was created.
	//
	// +optional
	ExternalKey *AcmeExternalKeyReference `json:"externalKey,omitempty"`
	// decision is Approved or Revoked. Setting it requires the verb approve on the
	// endpoint. A revoked account cannot do anything.
	//
	// +kubebuilder:validation:Enum="";Approved;Revoked
	// +optional
	Decision AcmeDecision `json:"decision,omitempty"`
	// decisionReason explains the decision to people.
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
	// requireAlways is the key's requireAlways at the time when the account was created. It
	// applies once the key is deleted. Default: true.
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
	// state is valid, deactivated (by the client) or revoked (by the server).
	//
	// +optional
	State AcmeAccountState `json:"state,omitempty"`
	// key is the name of the current AcmeAccountKey.
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
	// agreed is the client's agreement to the terms of service.
	//
	// +optional
	Agreed *AcmeAgreement `json:"agreed,omitempty"`
	// externalAccountBinding is the binding exactly as the client sent it: the protocol
	// returns it to the client.
	//
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	ExternalAccountBinding string `json:"externalAccountBinding,omitempty"`
	// ended is when the account was deactivated or revoked.
	//
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// ordered is true once the account has made an order.
	//
	// +optional
	Ordered bool `json:"ordered,omitempty"`
	// lastSeen is the day of the last request.
	//
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// newOrders are the orders of the last minute. They are written before the orders are
	// created, so that limits count them even on servers that do not see the orders yet.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	// +optional
	NewOrders []AcmeNewOrder `json:"newOrders,omitempty"`
	// initialAddress is the IP address of the client that created the account.
	//
	// +kubebuilder:validation:MaxLength=45
	// +optional
	InitialAddress string `json:"initialAddress,omitempty"`
}

// AcmeNewOrder is an order that is being created or was just created.
type AcmeNewOrder struct {
	// name is the name of the AcmeOrder.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// time is when the client placed the order.
	Time metav1.Time `json:"time"`
	// replaces is true if the order replaces a certificate.
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

// AcmeAccountKey is a current or former key of an account. Its name is the endpoint's name,
// a dot, and the key's thumbprint (RFC 7638) in base32, so that two accounts of an endpoint
// cannot share a key. The ACME server creates it.
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

// AcmeAccountKeySpec is a key and the account that it belongs to.
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
	// retired is when another key replaced this one. A retired key is never accepted again.
	//
	// +optional
	Retired *metav1.Time `json:"retired,omitempty"`
}
