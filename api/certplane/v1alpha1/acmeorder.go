package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AcmeOrder is an order of an ACME client, with its authorizations, challenges and
// certificate, in the namespace of the account's ServiceAccount. The ACME server creates
// it. Deleting it cancels the order.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.account`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Names",type=string,JSONPath=`.spec.identifiers[*].value`
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.account`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.profile`
// +kubebuilder:printcolumn:name="Request",type=string,JSONPath=`.status.request.name`
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.status.certificate.serial`,priority=1
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.certificate.notAfter`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.error.detail`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AcmeOrder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AcmeOrderSpec `json:"spec"`
	// +optional
	Status AcmeOrderStatus `json:"status,omitempty"`
}

// AcmeOrderList is a list of AcmeOrders.
//
// +kubebuilder:object:root=true
type AcmeOrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AcmeOrder `json:"items"`
}

// AcmeOrderSpec is the order as the client placed it.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the order of a client is immutable"
type AcmeOrderSpec struct {
	// endpoint is the name of the AcmeEndpoint.
	//
	// +kubebuilder:validation:MaxLength=40
	Endpoint string `json:"endpoint"`
	// account is the name of the AcmeAccount.
	//
	// +kubebuilder:validation:MaxLength=63
	Account string `json:"account"`
	// profile is the name of one of the endpoint's profiles.
	//
	// +kubebuilder:validation:MaxLength=32
	Profile string `json:"profile"`
	// notBefore and notAfter are the validity that the client requested.
	//
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// replaces is the CertID of the certificate that the order renews (RFC 9773
	// section 5).
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Replaces string `json:"replaces,omitempty"`
	// identifiers are the ordered names and addresses.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Identifiers []AcmeIdentifier `json:"identifiers"`
	// address is the IP address of the client.
	//
	// +kubebuilder:validation:MaxLength=45
	// +optional
	Address string `json:"address,omitempty"`
}

// AcmeIdentifier is a name or an address.
type AcmeIdentifier struct {
	// +kubebuilder:validation:Enum=dns;ip
	Type string `json:"type"`
	// +kubebuilder:validation:MaxLength=255
	Value string `json:"value"`
}

// AcmeOrderState is the stored state of an order.
//
// +kubebuilder:validation:Enum="";processing;valid;invalid
type AcmeOrderState string

// The stored states of an order (RFC 8555 section 7.1.6). An order without a stored state
// is pending or ready, depending on its authorizations and the time.
const (
	AcmeOrderOpen       AcmeOrderState = ""
	AcmeOrderProcessing AcmeOrderState = "processing"
	AcmeOrderValid      AcmeOrderState = "valid"
	AcmeOrderInvalid    AcmeOrderState = "invalid"
)

// AcmeOrderStatus is the state of an order.
type AcmeOrderStatus struct {
	// state is empty until the order is finalized.
	//
	// +optional
	State AcmeOrderState `json:"state,omitempty"`
	// expires is when the order expires unless it proceeds.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// authorizations are the authorizations for spec.identifiers, in the same order.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Authorizations []AcmeAuthorization `json:"authorizations,omitempty"`
	// tokenSeed is the seed from which the tokens of challenges without a stored token are
	// derived.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TokenSeed string `json:"tokenSeed,omitempty"`
	// csr is the certificate request, in DER.
	//
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	CSR []byte `json:"csr,omitempty"`
	// finalized is when the client sent the certificate request.
	//
	// +optional
	Finalized *metav1.Time `json:"finalized,omitempty"`
	// request is the request that was created for the order.
	//
	// +optional
	Request *AcmeRequestReference `json:"request,omitempty"`
	// error explains why the order is invalid.
	//
	// +optional
	Error *AcmeProblem `json:"error,omitempty"`
	// certificate is the issued certificate.
	//
	// +optional
	Certificate *AcmeCertificate `json:"certificate,omitempty"`
	// ended is when the order became valid or invalid.
	//
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// approval is the approval of the request.
	//
	// +optional
	Approval *AcmeOrderApproval `json:"approval,omitempty"`
	// carryFrom is the name of an earlier order whose approval by a person should also
	// count for this order.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CarryFrom string `json:"carryFrom,omitempty"`
	// supersededBy is the name of a later order for the same names that was approved while
	// this order still waits for approval.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SupersededBy string `json:"supersededBy,omitempty"`
	// replacedBy is the name of the order that renews the certificate.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ReplacedBy string `json:"replacedBy,omitempty"`
	// replacedAt is when replacedBy was set.
	//
	// +optional
	ReplacedAt *metav1.Time `json:"replacedAt,omitempty"`
	// conditions: Requested, Approved and Issued report the progress of the order and the
	// reason for waiting. They are removed together with the chain of the certificate.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AcmeOrigin is the kind of proof of an authorization.
//
// +kubebuilder:validation:Enum=Challenge;Preauthorized;Reused
type AcmeOrigin string

// Kinds of proof of an authorization.
const (
	AcmeOriginChallenge     AcmeOrigin = "Challenge"
	AcmeOriginPreauthorized AcmeOrigin = "Preauthorized"
	AcmeOriginReused        AcmeOrigin = "Reused"
)

// AcmeAuthorization is the proof of control of one identifier.
type AcmeAuthorization struct {
	// identifier is the ordered identifier, without the leading "*." of a wildcard.
	Identifier AcmeIdentifier `json:"identifier"`
	// wildcard is true if the wildcard was ordered.
	//
	// +optional
	Wildcard bool `json:"wildcard,omitempty"`
	// origin is the kind of proof: a challenge, the external key (Preauthorized) or an
	// earlier order (Reused).
	Origin AcmeOrigin `json:"origin"`
	// state is pending, valid, invalid, deactivated (by the client) or revoked (by the
	// server).
	//
	// +kubebuilder:validation:Enum=pending;valid;invalid;deactivated;revoked
	State string `json:"state"`
	// expires is when the authorization expires.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// challenges are the offered challenges. The client has to pass one of them.
	//
	// +kubebuilder:validation:MaxItems=3
	// +listType=atomic
	// +optional
	Challenges []AcmeChallenge `json:"challenges,omitempty"`
}

// AcmeChallenge is a challenge.
type AcmeChallenge struct {
	// +kubebuilder:validation:MaxLength=32
	Type string `json:"type"`
	// token is the value that the client combines with its key into the response. If empty,
	// it is derived from the order's tokenSeed.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Token string `json:"token,omitempty"`
	// +kubebuilder:validation:Enum=pending;processing;valid;invalid
	State string `json:"state"`
	// attempts is the number of attempts so far.
	//
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// nextAttempt is the time of the next attempt.
	//
	// +optional
	NextAttempt *metav1.Time `json:"nextAttempt,omitempty"`
	// deadline is when the challenge becomes invalid unless it was passed.
	//
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// error is the error of the last attempt.
	//
	// +optional
	Error *AcmeProblem `json:"error,omitempty"`
	// validated is when the client passed the challenge.
	//
	// +optional
	Validated *metav1.Time `json:"validated,omitempty"`
	// record is what the server saw at the last attempt, for audits. Clients do not see it.
	//
	// +optional
	Record *AcmeValidationRecord `json:"record,omitempty"`
}

// AcmeValidationRecord is what the server saw at the last attempt.
type AcmeValidationRecord struct {
	Time metav1.Time `json:"time"`
	// address is the address to which the server connected.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Address string `json:"address,omitempty"`
	// hops are the URLs of the redirects that were followed.
	//
	// +kubebuilder:validation:MaxItems=11
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=atomic
	// +optional
	Hops []string `json:"hops,omitempty"`
	// resolver is the DNS server that answered.
	//
	// +kubebuilder:validation:MaxLength=261
	// +optional
	Resolver string `json:"resolver,omitempty"`
	// tlsVersion is the TLS version of the tls-alpn-01 connection.
	//
	// +kubebuilder:validation:MaxLength=16
	// +optional
	TLSVersion string `json:"tlsVersion,omitempty"`
	// digest is the SHA-256 digest of the certificate or the TXT record.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Digest string `json:"digest,omitempty"`
}

// AcmeRequestReference identifies the request for an order. Its name is stored before the
// request is created, its uid afterwards.
type AcmeRequestReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// named is when the name was stored.
	//
	// +optional
	Named *metav1.Time `json:"named,omitempty"`
}

// AcmeOrderApproval is the approval of the request of an order.
type AcmeOrderApproval struct {
	// time is when the request was approved.
	Time metav1.Time `json:"time"`
	// by is the username of the person who approved the request. Empty if no person did.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	By string `json:"by,omitempty"`
	// carriedFrom is the name of an earlier order whose approval counts for this order.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CarriedFrom string `json:"carriedFrom,omitempty"`
	// sealed is the record of the approval, sealed by the server. It is the only proof of
	// the approval for later orders.
	//
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Sealed string `json:"sealed,omitempty"`
	// sealedOthers are the sealed records of the other approvers, if policies require
	// several people and let their approvals count for later orders.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=32768
	// +listType=atomic
	// +optional
	SealedOthers []string `json:"sealedOthers,omitempty"`
	// carriedTo are the names of later orders for which the approval counts.
	//
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	CarriedTo []string `json:"carriedTo,omitempty"`
	// denied is when the request of another order of the account was denied. From then on,
	// the approval does not count for later orders.
	//
	// +optional
	Denied *metav1.Time `json:"denied,omitempty"`
}

// AcmeProblem is a problem document of the protocol (RFC 8555 section 6.7).
type AcmeProblem struct {
	// type is the problem type without the prefix urn:ietf:params:acme:error:.
	//
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Detail string `json:"detail,omitempty"`
	// +optional
	Status int32 `json:"status,omitempty"`
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Subproblems []AcmeSubproblem `json:"subproblems,omitempty"`
}

// AcmeSubproblem is the part of a problem that concerns one identifier.
type AcmeSubproblem struct {
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Detail     string         `json:"detail,omitempty"`
	Identifier AcmeIdentifier `json:"identifier"`
}

// AcmeCertificate is an issued certificate.
type AcmeCertificate struct {
	// serial is the serial number in lower-case hexadecimal digits.
	//
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial"`
	// certID is the certificate's identifier (RFC 9773 section 4.1). Empty if the
	// certificate has no authority key identifier.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	CertID    string      `json:"certID,omitempty"`
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
	// digest is the SHA-256 digest of the certificate, keyDigest the SHA-256 digest of its
	// subjectPublicKeyInfo, in hexadecimal digits.
	//
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// +kubebuilder:validation:MaxLength=64
	KeyDigest string `json:"keyDigest"`
	// chain is the certificate and the CAs between it and the root, in PEM. It is removed
	// some time after issuance, as set by the endpoint's orders.chainFor.
	//
	// +kubebuilder:validation:MaxLength=131072
	// +optional
	Chain string `json:"chain,omitempty"`
	// alternates are other chains of the certificate to roots: the CAs of each, in
	// PEM, without the certificate itself. They are removed with chain.
	//
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	// +optional
	Alternates []string `json:"alternates,omitempty"`
	// revoked is set if the client requested the revocation, or a Revocation has revoked the
	// certificate.
	//
	// +optional
	Revoked *AcmeRevoked `json:"revoked,omitempty"`
}

// AcmeRevoked is a revocation that a client has requested. The certificate is refused, and on
// the revocation list of its CA, only if the endpoint has revocation: Publish.
type AcmeRevoked struct {
	Time metav1.Time `json:"time"`
	// reason is a reason code of RFC 5280 section 5.3.1.
	Reason int32 `json:"reason"`
	// by is the account that revoked it, "certificate key" if the request was signed
	// with the certificate's key, or the user who has created a Revocation.
	//
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`
}

// Conditions of AcmeOrders.
const (
	AcmeOrderRequested = "Requested"
	AcmeOrderApproved  = "Approved"
	AcmeOrderIssued    = "Issued"
)
