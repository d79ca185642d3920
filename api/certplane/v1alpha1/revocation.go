package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Revocation revokes certificates, from the moment of its creation. That is final: a
// Revocation does not change, and it can be deleted only after its certificates have ended.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=certplane
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Certificates",type=integer,JSONPath=`.status.recorded`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.status.requestedBy.username`
// +kubebuilder:printcolumn:name="Listed",type=string,JSONPath=`.status.conditions[?(@.type=="Listed")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.spec.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Revocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Revocation does not change"
	// +kubebuilder:validation:XValidation:rule="has(self.certificates) != has(self.selection)",message="exactly one of certificates and selection must be set"
	// +kubebuilder:validation:XValidation:rule="has(self.selection) == has(self.atMost)",message="atMost is required with selection, and only allowed there"
	Spec RevocationSpec `json:"spec"`
	// +optional
	Status RevocationStatus `json:"status,omitempty"`
}

// RevocationList is a list of Revocations.
//
// +kubebuilder:object:root=true
type RevocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Revocation `json:"items"`
}

// RevocationSpec names the certificates.
type RevocationSpec struct {
	// certificates are the certificates to revoke.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Certificates []RevokedCertificate `json:"certificates,omitempty"`
	// selection selects certificates in the inventory, instead of certificates.
	//
	// +optional
	Selection *RevocationSelection `json:"selection,omitempty"`
	// atMost is the number of certificates that selection may select. If it selects more,
	// nothing is revoked.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	AtMost int32 `json:"atMost,omitempty"`
	// reason is why the certificates are revoked, one of the reason codes of RFC 5280
	// section 5.3.1: Unspecified, KeyCompromise, AffiliationChanged, Superseded,
	// CessationOfOperation, PrivilegeWithdrawn, or for CA certificates CACompromise.
	//
	// +kubebuilder:validation:Enum=Unspecified;KeyCompromise;CACompromise;AffiliationChanged;Superseded;CessationOfOperation;PrivilegeWithdrawn
	Reason RevocationReason `json:"reason"`
	// message is for people. It is never part of a revocation list.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// upstream is whether the CA of an issuer of cert-manager.io that has one elsewhere, such
	// as a Vault or ACME server, is to revoke the certificates too: Pass or Skip. Default:
	// Pass.
	//
	// +kubebuilder:validation:Enum=Pass;Skip
	// +optional
	Upstream UpstreamRevocation `json:"upstream,omitempty"`
}

// UpstreamRevocation is whether CAs elsewhere are told of a revocation.
type UpstreamRevocation string

// Values of UpstreamRevocation.
const (
	UpstreamPass UpstreamRevocation = "Pass"
	UpstreamSkip UpstreamRevocation = "Skip"
)

// RevocationReason is why certificates are revoked.
type RevocationReason string

// RevokedCertificate identifies a certificate in one way: by fingerprint, by serialNumber and
// authorityKeyID, or by pem.
//
// +kubebuilder:validation:XValidation:rule="(has(self.fingerprint) ? 1 : 0) + (has(self.serialNumber) ? 1 : 0) + (has(self.pem) ? 1 : 0) == 1",message="exactly one of fingerprint, serialNumber and pem must be set"
// +kubebuilder:validation:XValidation:rule="has(self.serialNumber) == has(self.authorityKeyID)",message="serialNumber and authorityKeyID must be set together"
type RevokedCertificate struct {
	// fingerprint is the SHA-256 digest of a recorded certificate, in hexadecimal.
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{64}$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// serialNumber is the serial number in hexadecimal.
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{1,40}$`
	// +kubebuilder:validation:MaxLength=40
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// authorityKeyID is the authority key identifier in hexadecimal.
	//
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}){1,32}$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AuthorityKeyID string `json:"authorityKeyID,omitempty"`
	// pem is the certificate itself.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	PEM string `json:"pem,omitempty"`
}

// RevocationSelection selects certificates in the inventory that have not ended and are not
// revoked. Values of one list are alternatives; a certificate must match all lists that are
// set. Certificates that the server made for its own use are left out.
//
// +kubebuilder:validation:XValidation:rule="has(self.signers) || has(self.requesters) || has(self.names) || has(self.nodes) || has(self.namespaces) || has(self.authorityKeyIDs) || has(self.keyFingerprints) || has(self.labels)",message="at least one list must be set"
type RevocationSelection struct {
	// signers are names of signers, such as example.com/web.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Signers []string `json:"signers,omitempty"`
	// requesters are the users who made the requests.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Requesters []string `json:"requesters,omitempty"`
	// names are DNS names, IP addresses, URIs, e-mail addresses or common names, one of
	// which a certificate has.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
	// nodes are hosts: it selects their own certificates and those of their pods.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// namespaces are those of the requests.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// authorityKeyIDs are the key identifiers of CAs, in hexadecimal.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	// +optional
	AuthorityKeyIDs []string `json:"authorityKeyIDs,omitempty"`
	// keyFingerprints are SHA-256 digests of public keys (SubjectPublicKeyInfo), in
	// hexadecimal.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	// +optional
	KeyFingerprints []string `json:"keyFingerprints,omitempty"`
	// labels is a label selector of the requests, such as app=web.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Labels string `json:"labels,omitempty"`
	// issuedBefore leaves out certificates that were issued at this time or later. Default:
	// the time of creation.
	//
	// +optional
	IssuedBefore *metav1.Time `json:"issuedBefore,omitempty"`
	// pendingRequests is whether certificates are revoked that are issued within 24 hours
	// for requests that already existed, and match: in the write that issues them. They do not
	// count for atMost. They must be of a signer whose certificates the creator may revoke,
	// and of which this Revocation revokes some or which signers lists, or for the creator's
	// own requests, and not be of CAs. Default: true.
	//
	// +optional
	PendingRequests *bool `json:"pendingRequests,omitempty"`
}

// RevocationStatus is what has been done.
type RevocationStatus struct {
	// requestedBy is the user who created the Revocation.
	//
	// +optional
	RequestedBy *RevocationUser `json:"requestedBy,omitempty"`
	// time is since when the certificates are revoked.
	//
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// recorded is the number of certificates that this Revocation has revoked,
	// alreadyRevoked of those that were revoked before.
	//
	// +optional
	Recorded int32 `json:"recorded,omitempty"`
	// +optional
	AlreadyRevoked int32 `json:"alreadyRevoked,omitempty"`
	// ends is when the last of the certificates ends.
	//
	// +optional
	Ends *metav1.Time `json:"ends,omitempty"`
	// conditions: Recorded is True once this server refuses the certificates; Listed is True
	// once each revocation list that has to name them does; PassedOn is True once the CAs of
	// issuers that have one elsewhere have revoked them, and absent if there are none.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RevocationUser is a user.
type RevocationUser struct {
	Username string `json:"username"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// Conditions of Revocations.
const (
	RevocationRecorded = "Recorded"
	RevocationListed   = "Listed"
	RevocationPassedOn = "PassedOn"
)
