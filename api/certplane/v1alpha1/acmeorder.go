package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AcmeOrder is an order of an ACME client, with its authorizations, challenges and
// certificate, in the namespace of the account's ServiceAccount. The ACME server
// makes it. Deleting it cancels the order.
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

// AcmeOrderSpec is what the client has asked for.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="what a client has ordered is immutable"
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
	// notBefore and notAfter are what the client asked for.
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
	// identifiers are the names and addresses.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Identifiers []AcmeIdentifier `json:"identifiers"`
	// address is from where the client has ordered.
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

// AcmeOrderState is the state of an order, as far as it is stored.
//
// +kubebuilder:validation:Enum="";processing;valid;invalid
type AcmeOrderState string

// The stored states of an order (RFC 8555 section 7.1.6). An order without one is
// pending or ready: that follows from its authorizations and the time.
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
	// expires is when the order ends if nothing happens.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// authorizations are those of spec.identifiers, in that order.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Authorizations []AcmeAuthorization `json:"authorizations,omitempty"`
	// tokenSeed is what the tokens of challenges that have none follow from.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TokenSeed string `json:"tokenSeed,omitempty"`
	// csr is the certificate request, in DER.
	//
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	CSR []byte `json:"csr,omitempty"`
	// finalized is when the client has sent it.
	//
	// +optional
	Finalized *metav1.Time `json:"finalized,omitempty"`
	// request is the request that was made for the order.
	//
	// +optional
	Request *AcmeRequestReference `json:"request,omitempty"`
	// error says why the order is invalid.
	//
	// +optional
	Error *AcmeProblem `json:"error,omitempty"`
	// certificate is what was issued.
	//
	// +optional
	Certificate *AcmeCertificate `json:"certificate,omitempty"`
	// ended is when the order became valid or invalid.
	//
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// approval says who has approved the request.
	//
	// +optional
	Approval *AcmeOrderApproval `json:"approval,omitempty"`
	// carryFrom is the name of an earlier order whose approval by a person is to
	// count for this one, too.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CarryFrom string `json:"carryFrom,omitempty"`
	// supersededBy is the name of a later order for the same names that is
	// approved, while this one waits for its approval.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SupersededBy string `json:"supersededBy,omitempty"`
	// replacedBy is the name of the order that renews the certificate.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ReplacedBy string `json:"replacedBy,omitempty"`
	// replacedAt is when replacedBy was written.
	//
	// +optional
	ReplacedAt *metav1.Time `json:"replacedAt,omitempty"`
	// conditions: Requested, Approved and Issued say how far the order has come,
	// and what it waits for. They are removed with the chain of the certificate.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AcmeOrigin is how an authorization came about.
//
// +kubebuilder:validation:Enum=Challenge;Preauthorized;Reused
type AcmeOrigin string

// How an authorization can come about.
const (
	AcmeOriginChallenge     AcmeOrigin = "Challenge"
	AcmeOriginPreauthorized AcmeOrigin = "Preauthorized"
	AcmeOriginReused        AcmeOrigin = "Reused"
)

// AcmeAuthorization is the proof of control of one identifier.
type AcmeAuthorization struct {
	// identifier is that of the order, of wildcards without the leading "*.".
	Identifier AcmeIdentifier `json:"identifier"`
	// wildcard is set if the order has the wildcard.
	//
	// +optional
	Wildcard bool `json:"wildcard,omitempty"`
	// origin says whether a challenge proves control, the external key, or an
	// earlier order.
	Origin AcmeOrigin `json:"origin"`
	// state is pending, valid, invalid; deactivated by the client; or revoked by us.
	//
	// +kubebuilder:validation:Enum=pending;valid;invalid;deactivated;revoked
	State string `json:"state"`
	// expires is when it ends.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
	// challenges are the offered ones. Of them one has to be met.
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
	// token is what the client has to answer with, together with its key. If it is empty,
	// it follows from the order's tokenSeed.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Token string `json:"token,omitempty"`
	// +kubebuilder:validation:Enum=pending;processing;valid;invalid
	State string `json:"state"`
	// attempts is how often it was tried.
	//
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// nextAttempt is when it is tried next.
	//
	// +optional
	NextAttempt *metav1.Time `json:"nextAttempt,omitempty"`
	// deadline is when it is invalid at the latest.
	//
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// error is that of the last attempt.
	//
	// +optional
	Error *AcmeProblem `json:"error,omitempty"`
	// validated is when it was met.
	//
	// +optional
	Validated *metav1.Time `json:"validated,omitempty"`
	// record says what was seen, for audits. Clients are not told.
	//
	// +optional
	Record *AcmeValidationRecord `json:"record,omitempty"`
}

// AcmeValidationRecord is what was seen at the last attempt.
type AcmeValidationRecord struct {
	Time metav1.Time `json:"time"`
	// address is where the server has connected to.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Address string `json:"address,omitempty"`
	// hops are the URLs of redirects.
	//
	// +kubebuilder:validation:MaxItems=11
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=atomic
	// +optional
	Hops []string `json:"hops,omitempty"`
	// resolver is the DNS server that has answered.
	//
	// +kubebuilder:validation:MaxLength=261
	// +optional
	Resolver string `json:"resolver,omitempty"`
	// tlsVersion is that of tls-alpn-01.
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

// AcmeRequestReference is the request that was made for an order. Its name is
// written before the request is made, its uid after.
type AcmeRequestReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// named is when the name was written.
	//
	// +optional
	Named *metav1.Time `json:"named,omitempty"`
}

// AcmeOrderApproval is the approval of the request of an order.
type AcmeOrderApproval struct {
	// time is when the request was approved.
	Time metav1.Time `json:"time"`
	// by is the username of the person who has approved it. It is empty if no
	// person has.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	By string `json:"by,omitempty"`
	// carriedFrom is the name of an earlier order whose approval counts for this
	// one.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CarriedFrom string `json:"carriedFrom,omitempty"`
	// sealed is the record of the approval, sealed by the server. It alone proves
	// the approval for later orders.
	//
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Sealed string `json:"sealed,omitempty"`
	// sealedOthers are the records of the other people who have approved, if policies
	// require several and permit that their approvals count for later orders.
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
	// denied is when the request of another order of the account was denied: since
	// then the approval counts for no later order.
	//
	// +optional
	Denied *metav1.Time `json:"denied,omitempty"`
}

// AcmeProblem is a problem document of the protocol (RFC 8555 section 6.7).
type AcmeProblem struct {
	// type is without the prefix urn:ietf:params:acme:error:.
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

// AcmeSubproblem is the part of a problem that is about one identifier.
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
	// certID is the certificate's identifier of RFC 9773, empty if it has no
	// authority key identifier.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	CertID    string      `json:"certID,omitempty"`
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
	// digest is the SHA-256 digest of the certificate, keyDigest that of its
	// subjectPublicKeyInfo, in hexadecimal digits.
	//
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// +kubebuilder:validation:MaxLength=64
	KeyDigest string `json:"keyDigest"`
	// chain is the certificate and the CAs between it and the root, in PEM. It is
	// removed after a time.
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
	// revoked says that the client has asked for the revocation.
	//
	// +optional
	Revoked *AcmeRevoked `json:"revoked,omitempty"`
}

// AcmeRevoked is a recorded revocation. No revocation list has it.
type AcmeRevoked struct {
	Time metav1.Time `json:"time"`
	// reason is that of RFC 5280 section 5.3.1.
	Reason int32 `json:"reason"`
	// by is the account, or "certificate key".
	//
	// +kubebuilder:validation:MaxLength=63
	By string `json:"by"`
}

// Conditions of AcmeOrders.
const (
	AcmeOrderRequested = "Requested"
	AcmeOrderApproved  = "Approved"
	AcmeOrderIssued    = "Issued"
)
