package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels of every IssuedCertificate. The labels of its request are kept too.
const (
	// KindLabel is the kind of the request.
	KindLabel = GroupName + "/kind"
	// NamespaceLabel is the namespace of the request; absent for requests without a
	// namespace.
	NamespaceLabel = GroupName + "/namespace"
	// SignerLabel is the name of the signer with "_" for "/"; absent if that is too long
	// for a label.
	SignerLabel = GroupName + "/signer"
	// NotAfterLabel is when the certificate expires, in seconds since 1970. Selectors can
	// compare it: 'inventory.certplane.dev/not-after<1800000000'.
	NotAfterLabel = GroupName + "/not-after"
	// ChargedLabel is the tenant whose share of the store the record counts for, such as
	// namespace.shop or user.alice, with "_" for ":" and "/"; absent if that is too long
	// for a label.
	ChargedLabel = GroupName + "/charged-to"
)

// ChargedAnnotation is the tenant whose share of the store the record counts for, such as
// namespace/shop or user/alice. Absent from records that count for no tenant.
const ChargedAnnotation = GroupName + "/charged-to"

// FoundAnnotation is when a server found a stored certificate without a record, such as one
// issued by a version without an inventory. Such a record was written after the certificate
// was issued, and may lack the approvers.
const FoundAnnotation = GroupName + "/found-at"

// Fields that field selectors support, in addition to metadata.name.
const (
	// SerialField is the serial number, as in certificate.serialNumber.
	SerialField = "certificate.serialNumber"
	// FingerprintField is the SHA-256 fingerprint, as in certificate.fingerprint.
	FingerprintField = "certificate.fingerprint"
	// KeyFingerprintField is the SHA-256 of the public key, as in
	// certificate.keyFingerprint. It never selects records without that field.
	KeyFingerprintField = "certificate.keyFingerprint"
	// NameField is any DNS name, IP address, URI or e-mail address of the certificate, or
	// the common name of its subject.
	NameField = "certificate.name"
	// SignerField is the name of the signer.
	SignerField = "signerName"
	// RequesterField is the name of the user who made the request.
	RequesterField = "request.requester"
	// RequestNameField and RequestNamespaceField are the name and the namespace of the
	// request.
	RequestNameField      = "request.name"
	RequestNamespaceField = "request.namespace"
	// DecisionField is Approved or Denied, as in decision of CertificateDecisions.
	DecisionField = "decision"
	// DecisionUserField is the name of any user who approved or denied the request.
	DecisionUserField = "decision.user"
	// KeyTypeField is the type of the key, such as RSA-2048, or its algorithm, such as RSA.
	KeyTypeField = "certificate.keyType"
	// SignatureAlgorithmField is the algorithm of the signature, such as ECDSA-SHA256, or a
	// part of it, such as SHA1.
	SignatureAlgorithmField = "certificate.signatureAlgorithm"
	// UnderField is a domain: it selects certificates for this domain or for a DNS name
	// below it.
	UnderField = "certificate.under"
	// LongerThanField is a time such as 90d: it selects certificates with a longer
	// lifetime.
	LongerThanField = "certificate.longerThan"
	// WeakerThanField is a type of key such as RSA-3072: it selects certificates with a
	// smaller key of the same algorithm.
	WeakerThanField = "certificate.weakerThan"
	// IssuedSinceField and IssuedBeforeField are times, such as 2026-11-30 or
	// 2026-11-30T08:00:00Z: they select certificates issued at or after the time, and
	// before it.
	IssuedSinceField  = "issued.since"
	IssuedBeforeField = "issued.before"
	// RevokedField is true for revoked certificates, false for others.
	RevokedField = "revoked"
)

// The decisions.
const (
	Approved = "Approved"
	Denied   = "Denied"
)

// IssuedCertificate is the server's record of an issued certificate. Clients cannot change
// it. Its name is the first half of the certificate's SHA-256 fingerprint. The server
// deletes it some time after the certificate has expired.
//
// +kubebuilder:object:root=true
type IssuedCertificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// signerName is the name of the signer. Issuers of cert-manager.io have names such as
	// issuers.cert-manager.io/NAMESPACE.NAME.
	SignerName string `json:"signerName"`
	// certificate is the content of the certificate.
	Certificate CertificateFacts `json:"certificate"`
	// request is the request for the certificate. For a certificate that the server made
	// for its own use, it is the object that the certificate is for, if there is one.
	Request RequestFacts `json:"request"`
	// use is the purpose of a certificate that the server itself uses, such as its listener
	// or the CA of a Signer. Empty for requested certificates.
	// +optional
	Use string `json:"use,omitempty"`
	// approval is how the request was approved.
	// +optional
	Approval *ApprovalFacts `json:"approval,omitempty"`
	// denial is how a request was denied. Never set here: a denied request has no
	// certificate, so its record is served only as a CertificateDecision.
	// +optional
	Denial *DenialFacts `json:"denial,omitempty"`
	// location is the object that uses the certificate. Absent if only the requester knows
	// it.
	// +optional
	Location *Location `json:"location,omitempty"`
	// revocation is set if the certificate is revoked.
	// +optional
	Revocation *RevocationFacts `json:"revocation,omitempty"`
}

// RevocationFacts is how a certificate was revoked.
type RevocationFacts struct {
	// time is when it was revoked.
	Time metav1.Time `json:"time"`
	// reason is a reason code of RFC 5280 section 5.3.1, such as KeyCompromise.
	Reason string `json:"reason"`
	// by is the user who revoked it. If a client of the ACME server did, it is the account,
	// or "certificate key" if the request was signed with the certificate's key.
	By string `json:"by"`
	// name is the Revocation. Empty if a client of the ACME server revoked the certificate
	// at an endpoint that only records it: then it is on no revocation list, and accepted.
	// +optional
	Name string `json:"name,omitempty"`
}

// CertificateFacts is the content of a certificate.
type CertificateFacts struct {
	// serialNumber is the serial number in hexadecimal, without separators.
	SerialNumber string `json:"serialNumber"`
	// fingerprint is the SHA-256 digest of the certificate, in hexadecimal.
	Fingerprint string `json:"fingerprint"`
	// keyFingerprint is the SHA-256 digest of the public key (the SubjectPublicKeyInfo of
	// RFC 5280 section 4.1), in hexadecimal. Records of earlier versions do not have it.
	// +optional
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
	// twin is the first half of the SHA-256 digest of the other form of the certificate, in
	// hexadecimal. An ECDSA signature (r, s) is valid as (r, n-s) too, so the holder
	// of the certificate can give it this second fingerprint. Empty if the CA's key is of another
	// type, and in records of earlier versions.
	// +optional
	Twin string `json:"twin,omitempty"`
	// subject is the distinguished name (RFC 2253).
	// +optional
	Subject string `json:"subject,omitempty"`
	// issuer is the distinguished name of the CA (RFC 2253).
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// authorityKeyID is the authority key identifier, in hexadecimal.
	// +optional
	AuthorityKeyID string `json:"authorityKeyID,omitempty"`
	// commonName is the common name of the subject.
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
	// omittedNames is the number of names that the record omits: it holds at most 2 KiB of
	// names. Searches for an omitted name still find the record.
	// +optional
	OmittedNames int32 `json:"omittedNames,omitempty"`
	// omittedNameDigests is a sorted list of digests, 4 bytes each: the start of the
	// SHA-256 digest of each omitted name, in lower case, and of each DNS domain above it,
	// with a leading ".". Empty if there would be more than 1,024: searches then assume
	// that the certificate may have any name.
	// +optional
	OmittedNameDigests []byte `json:"omittedNameDigests,omitempty"`
	// keyType is the type of the public key, such as ECDSA P-256 or RSA 2048.
	KeyType string `json:"keyType"`
	// signatureAlgorithm is the algorithm of the CA's signature, such as SHA256-RSA,
	// ECDSA-SHA256 or Ed25519.
	// +optional
	SignatureAlgorithm string `json:"signatureAlgorithm,omitempty"`
	// usages are the key usages and extended key usages, as in requests.
	// +optional
	// +listType=atomic
	Usages []string `json:"usages,omitempty"`
	// isCA is true for certificates that may sign other certificates.
	// +optional
	IsCA bool `json:"isCA,omitempty"`
	// notBefore is when the certificate becomes valid.
	NotBefore metav1.Time `json:"notBefore"`
	// notAfter is when the certificate expires.
	NotAfter metav1.Time `json:"notAfter"`
}

// RequestFacts identifies a request and its requester.
type RequestFacts struct {
	// apiGroup is the API group of the request.
	APIGroup string `json:"apiGroup"`
	// kind is the kind of the request.
	Kind string `json:"kind"`
	// namespace is the namespace of the request.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the request.
	Name string `json:"name"`
	// uid is the UID of the request.
	UID string `json:"uid"`
	// requester is the name of the user who made the request.
	// +optional
	Requester string `json:"requester,omitempty"`
}

// ApprovalFacts is how a request was approved.
type ApprovalFacts struct {
	// approvers are the names of the users who approved: everyone whose approval a policy
	// counted.
	// +optional
	// +listType=atomic
	Approvers []string `json:"approvers,omitempty"`
	// time is when the request was approved.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// reason is the reason of the Approved condition.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the message of the Approved condition. It names the policy, if a policy
	// decided.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are the policies that allowed the request: the one that approved it, or
	// those that required people to approve it.
	// +optional
	// +listType=atomic
	Policies []PolicyFacts `json:"policies,omitempty"`
	// votes are the approvals by people that policies counted.
	// +optional
	// +listType=atomic
	Votes []VoteFacts `json:"votes,omitempty"`
}

// DenialFacts is how a request was denied.
type DenialFacts struct {
	// user is the name of the user who denied the request.
	// +optional
	User string `json:"user,omitempty"`
	// time is when the request was denied.
	Time metav1.Time `json:"time"`
	// reason is the reason of the Denied condition.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the message of the Denied condition.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are the policies that denied the request. Empty if a person denied it.
	// +optional
	// +listType=atomic
	Policies []PolicyFacts `json:"policies,omitempty"`
	// votes are the approvals by people before the denial.
	// +optional
	// +listType=atomic
	Votes []VoteFacts `json:"votes,omitempty"`
}

// PolicyFacts identifies a policy as it was when it decided.
type PolicyFacts struct {
	// name is the name of the CertificatePolicy. Policies of other kinds have their kind in
	// front.
	Name string `json:"name"`
	// generation is the generation of the policy, if the policy approved or denied
	// automatically.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// digest is the digest of the policy's spec, as in its status.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// VoteFacts is the approval by one of several people.
type VoteFacts struct {
	// user is the name of the user.
	User string `json:"user"`
	// time is when the user approved.
	Time metav1.Time `json:"time"`
	// message is the message of the condition that recorded the approval, including the
	// user's own words.
	// +optional
	Message string `json:"message,omitempty"`
}

// Location is the object that uses a certificate.
type Location struct {
	// kind is Certificate, Pod, Node or AcmeOrder.
	Kind string `json:"kind"`
	// namespace is the namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	Name string `json:"name"`
	// node is the node of a Pod.
	// +optional
	Node string `json:"node,omitempty"`
	// claimed is true if the location was not verified: it comes from labels or owner
	// references that the requester set.
	// +optional
	Claimed bool `json:"claimed,omitempty"`
}

// CertificateDecision is the approval or the denial of a request. It is a view of a record
// of the inventory: the certificate's record, if one was issued.
//
// +kubebuilder:object:root=true
type CertificateDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// decision is Approved or Denied.
	Decision string `json:"decision"`
	// users are the names of the users who decided.
	// +optional
	// +listType=atomic
	Users []string `json:"users,omitempty"`
	// time is when the decision was made.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// reason is the reason of the Approved or Denied condition.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the message of the Approved or Denied condition.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are the policies that led to the decision.
	// +optional
	// +listType=atomic
	Policies []PolicyFacts `json:"policies,omitempty"`
	// votes are the approvals by people that policies counted.
	// +optional
	// +listType=atomic
	Votes []VoteFacts `json:"votes,omitempty"`
	// signerName is the name of the signer.
	SignerName string `json:"signerName"`
	// request is the request.
	Request RequestFacts `json:"request"`
	// subject is the requested distinguished name (RFC 2253).
	// +optional
	Subject string `json:"subject,omitempty"`
	// names are the requested names, or the names in the certificate if one was issued.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitempty"`
	// omittedNames is the number of names that the record omits.
	// +optional
	OmittedNames int32 `json:"omittedNames,omitempty"`
	// keyType is the type of the public key.
	// +optional
	KeyType string `json:"keyType,omitempty"`
	// certificate is the name of the IssuedCertificate. Empty if no certificate was issued.
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

// IssuedCertificateList is a list of IssuedCertificates, in the order in which they expire.
//
// +kubebuilder:object:root=true
type IssuedCertificateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IssuedCertificate `json:"items"`
}
