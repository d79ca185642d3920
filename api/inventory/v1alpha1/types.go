package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The labels that every IssuedCertificate has, besides those of its request.
const (
	// KindLabel is the kind of the request.
	KindLabel = GroupName + "/kind"
	// NamespaceLabel is the namespace of the request; requests without one have no such
	// label.
	NamespaceLabel = GroupName + "/namespace"
	// SignerLabel is the name of the signer with "_" for "/", if it is short enough for a
	// label.
	SignerLabel = GroupName + "/signer"
	// NotAfterLabel is when the certificate ends, in seconds since 1970. It can be
	// compared: 'inventory.certplane.dev/not-after<1800000000'.
	NotAfterLabel = GroupName + "/not-after"
	// ChargedLabel is the tenant whose share of the store the record counts for, such as
	// namespace.shop or user.alice, with "_" for ":" and "/", if it is short enough for a
	// label.
	ChargedLabel = GroupName + "/charged-to"
)

// ChargedAnnotation is the tenant whose share of the store the record counts for, such as
// namespace/shop or user/alice. Records that count for no tenant do not have it.
const ChargedAnnotation = GroupName + "/charged-to"

// FoundAnnotation is when a server has found a certificate without a record in a stored
// object, such as one from a version without an inventory. The record was not made when the
// certificate was issued, and may not say who approved.
const FoundAnnotation = GroupName + "/found-at"

// The fields that field selectors can name, besides metadata.name.
const (
	// SerialField is the serial number, as in certificate.serialNumber.
	SerialField = "certificate.serialNumber"
	// FingerprintField is the SHA-256 fingerprint, as in certificate.fingerprint.
	FingerprintField = "certificate.fingerprint"
	// NameField is any DNS name, IP address, URI or e-mail address of the certificate, or
	// the common name of its subject.
	NameField = "certificate.name"
	// SignerField is the name of the signer.
	SignerField = "signerName"
	// RequesterField is the name of the user who made the request.
	RequesterField = "request.requester"
	// RequestNameField and RequestNamespaceField are those of the request.
	RequestNameField      = "request.name"
	RequestNamespaceField = "request.namespace"
	// DecisionField is Approved or Denied, as in decision of CertificateDecisions.
	DecisionField = "decision"
	// DecisionUserField is the name of any user who has approved or denied the request.
	DecisionUserField = "decision.user"
	// KeyTypeField is the type of the key, such as RSA-2048, or its algorithm, such as RSA.
	KeyTypeField = "certificate.keyType"
	// SignatureAlgorithmField is the algorithm of the signature, such as ECDSA-SHA256, or a
	// part of it, such as SHA1.
	SignatureAlgorithmField = "certificate.signatureAlgorithm"
	// UnderField is a domain: the certificate has it as a name, or a DNS name below it.
	UnderField = "certificate.under"
	// LongerThanField is a time such as 90d, longer than which the certificate is valid.
	LongerThanField = "certificate.longerThan"
	// WeakerThanField is a type of key such as RSA-3072: the certificate has a smaller key of
	// the same algorithm.
	WeakerThanField = "certificate.weakerThan"
	// IssuedSinceField and IssuedBeforeField are times, such as 2026-11-30 or
	// 2026-11-30T08:00:00Z, since or before which the certificate was issued.
	IssuedSinceField  = "issued.since"
	IssuedBeforeField = "issued.before"
)

// The decisions.
const (
	Approved = "Approved"
	Denied   = "Denied"
)

// IssuedCertificate is a certificate that was issued: the record of the server, which
// nobody changes. Its name is the first half of the certificate's SHA-256 fingerprint.
// The server deletes it some time after the certificate has ended.
//
// +kubebuilder:object:root=true
type IssuedCertificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// signerName is the name of the signer. Requests that name an issuer have that of
	// cert-manager.io: issuers.cert-manager.io/NAMESPACE.NAME.
	SignerName string `json:"signerName"`
	// certificate is what the certificate says.
	Certificate CertificateFacts `json:"certificate"`
	// request is the request for the certificate. Of one that the server has made for
	// itself, it is the object that it is for, if there is one.
	Request RequestFacts `json:"request"`
	// use is what the server itself has the certificate for, such as its listener or the CA
	// of a Signer; empty if somebody has requested it.
	// +optional
	Use string `json:"use,omitempty"`
	// approval is how the request was approved.
	// +optional
	Approval *ApprovalFacts `json:"approval,omitempty"`
	// denial is how a request was denied. No IssuedCertificate has it: such a record has no
	// certificate, and is a CertificateDecision only.
	// +optional
	Denial *DenialFacts `json:"denial,omitempty"`
	// location is what has the certificate; none if only the requester knows.
	// +optional
	Location *Location `json:"location,omitempty"`
	// revocation is that the certificate was revoked by a client of the ACME server. No
	// revocation list has it.
	// +optional
	Revocation *RevocationFacts `json:"revocation,omitempty"`
}

// RevocationFacts is how a certificate was revoked.
type RevocationFacts struct {
	// time is when it was revoked.
	Time metav1.Time `json:"time"`
	// reason is that of RFC 5280 section 5.3.1, such as keyCompromise.
	Reason string `json:"reason"`
	// by is the account of the ACME server, or "certificate key".
	By string `json:"by"`
}

// CertificateFacts is what a certificate says.
type CertificateFacts struct {
	// serialNumber is hexadecimal, without separators.
	SerialNumber string `json:"serialNumber"`
	// fingerprint is the SHA-256 digest of the certificate, hexadecimal.
	Fingerprint string `json:"fingerprint"`
	// subject is the distinguished name (RFC 2253).
	// +optional
	Subject string `json:"subject,omitempty"`
	// issuer is the distinguished name of the CA (RFC 2253).
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// authorityKeyID identifies the key of the CA, hexadecimal.
	// +optional
	AuthorityKeyID string `json:"authorityKeyID,omitempty"`
	// commonName is that of the subject.
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// dnsNames, ipAddresses, uris and emailAddresses are the subject alternative names.
	// +optional
	// +listType=atomic
	DNSNames []string `json:"dnsNames,omitempty"`
	// +optional
	// +listType=atomic
	IPAddresses []string `json:"ipAddresses,omitempty"`
	// +optional
	// +listType=atomic
	URIs []string `json:"uris,omitempty"`
	// +optional
	// +listType=atomic
	EmailAddresses []string `json:"emailAddresses,omitempty"`
	// omittedNames is how many names are left out: a record has names of 2 KiB. Searches by
	// one of these names find the record.
	// +optional
	OmittedNames int32 `json:"omittedNames,omitempty"`
	// omittedNameDigests are the first 4 bytes of the SHA-256 digest of each name that is left
	// out, in lower case, and of each DNS domain that it is below, with "." in front, sorted.
	// There are none if there would be more than 1,024: then the certificate may have any name.
	// +optional
	OmittedNameDigests []byte `json:"omittedNameDigests,omitempty"`
	// keyType is the type of the public key, such as ECDSA P-256 or RSA 2048.
	KeyType string `json:"keyType"`
	// signatureAlgorithm is the algorithm with which the CA has signed, such as SHA256-RSA,
	// ECDSA-SHA256 or Ed25519.
	// +optional
	SignatureAlgorithm string `json:"signatureAlgorithm,omitempty"`
	// usages are the key usages and extended key usages, as in requests.
	// +optional
	// +listType=atomic
	Usages []string `json:"usages,omitempty"`
	// isCA is true for certificates that may sign others.
	// +optional
	IsCA bool `json:"isCA,omitempty"`
	// notBefore is when the certificate begins.
	NotBefore metav1.Time `json:"notBefore"`
	// notAfter is when the certificate ends.
	NotAfter metav1.Time `json:"notAfter"`
}

// RequestFacts identifies a request and who made it.
type RequestFacts struct {
	// apiGroup is that of the request.
	APIGroup string `json:"apiGroup"`
	// kind is that of the request.
	Kind string `json:"kind"`
	// namespace is that of the request.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is that of the request.
	Name string `json:"name"`
	// uid is that of the request.
	UID string `json:"uid"`
	// requester is the name of the user who made the request.
	// +optional
	Requester string `json:"requester,omitempty"`
}

// ApprovalFacts is how a request was approved.
type ApprovalFacts struct {
	// approvers are the names of the users who approved: all whose approvals policies have
	// counted.
	// +optional
	// +listType=atomic
	Approvers []string `json:"approvers,omitempty"`
	// time is when the request was approved.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// reason is that of the condition Approved.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is that of the condition Approved. It names the policy, if one has decided.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are those that allowed it: the one that approved, or those that required the
	// approvals of people.
	// +optional
	// +listType=atomic
	Policies []PolicyFacts `json:"policies,omitempty"`
	// votes are the approvals of people that policies have counted.
	// +optional
	// +listType=atomic
	Votes []VoteFacts `json:"votes,omitempty"`
}

// DenialFacts is how a request was denied.
type DenialFacts struct {
	// user is the name of the user who denied.
	// +optional
	User string `json:"user,omitempty"`
	// time is when the request was denied.
	Time metav1.Time `json:"time"`
	// reason is that of the condition Denied.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is that of the condition Denied.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are those that denied it; none if a person did.
	// +optional
	// +listType=atomic
	Policies []PolicyFacts `json:"policies,omitempty"`
	// votes are the approvals of people before that.
	// +optional
	// +listType=atomic
	Votes []VoteFacts `json:"votes,omitempty"`
}

// PolicyFacts identifies a policy as it was when it decided.
type PolicyFacts struct {
	// name is that of the CertificatePolicy, or of another policy with its kind in front.
	Name string `json:"name"`
	// generation is that of the policy, if it was approved or denied automatically.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// digest is that of the policy's content, as in its status.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// VoteFacts is the approval of one of several people.
type VoteFacts struct {
	// user is the name of the user.
	User string `json:"user"`
	// time is when the user approved.
	Time metav1.Time `json:"time"`
	// message is that of the condition that the approval became, with what the user has said.
	// +optional
	Message string `json:"message,omitempty"`
}

// Location is what has a certificate.
type Location struct {
	// kind is Certificate, Pod, Node or AcmeOrder.
	Kind string `json:"kind"`
	// namespace is that of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is that of the object.
	Name string `json:"name"`
	// node is the node of a Pod.
	// +optional
	Node string `json:"node,omitempty"`
	// claimed is true if only the requester says so, in labels or owner references of the
	// request.
	// +optional
	Claimed bool `json:"claimed,omitempty"`
}

// CertificateDecision is an approval or a denial of a request: a view of the record, which
// is that of the certificate, if the request has got one.
//
// +kubebuilder:object:root=true
type CertificateDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// decision is Approved or Denied.
	Decision string `json:"decision"`
	// users are the names of those who decided.
	// +optional
	// +listType=atomic
	Users []string `json:"users,omitempty"`
	// time is when it was decided.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// reason is that of the condition Approved or Denied.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is that of the condition Approved or Denied.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are those by which it was decided.
	// +optional
	// +listType=atomic
	Policies []PolicyFacts `json:"policies,omitempty"`
	// votes are the approvals of people that policies have counted.
	// +optional
	// +listType=atomic
	Votes []VoteFacts `json:"votes,omitempty"`
	// signerName is the name of the signer.
	SignerName string `json:"signerName"`
	// request is the request.
	Request RequestFacts `json:"request"`
	// subject is the distinguished name (RFC 2253) that was asked for.
	// +optional
	Subject string `json:"subject,omitempty"`
	// names are the names that were asked for, or that the certificate has.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitempty"`
	// omittedNames is how many names are left out.
	// +optional
	OmittedNames int32 `json:"omittedNames,omitempty"`
	// keyType is the type of the public key.
	// +optional
	KeyType string `json:"keyType,omitempty"`
	// certificate is the name of the IssuedCertificate; empty if there is no certificate.
	// +optional
	Certificate string `json:"certificate,omitempty"`
}

// CertificateDecisionList is a list of CertificateDecisions, in the order of their records.
//
// +kubebuilder:object:root=true
type CertificateDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CertificateDecision `json:"items"`
}

// IssuedCertificateList is a list of IssuedCertificates, those that end first in front.
//
// +kubebuilder:object:root=true
type IssuedCertificateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IssuedCertificate `json:"items"`
}
