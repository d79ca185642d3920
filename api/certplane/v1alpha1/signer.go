package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Signer declares a signer, without programming. The properties that KEP-1513 requires
// every signer to document are fields here, and certplane enforces them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:selectablefield:JSONPath=`.spec.signerName`
// +kubebuilder:printcolumn:name="Signer",type=string,JSONPath=`.spec.signerName`
// +kubebuilder:printcolumn:name="Requests",type=string,JSONPath=`.spec.requests`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="CA Expires",type=string,JSONPath=`.status.ca.notAfter`
// +kubebuilder:printcolumn:name="Next CA Signs From",type=string,JSONPath=`.status.nextCA.signsFrom`,priority=1
// +kubebuilder:printcolumn:name="Lifetime",type=string,JSONPath=`.spec.profile.lifetime.maximum`,priority=1
// +kubebuilder:printcolumn:name="Usages",type=string,JSONPath=`.spec.profile.usages`,priority=1
// +kubebuilder:printcolumn:name="Trust",type=boolean,JSONPath=`.spec.publishTrustBundle`,priority=1
// +kubebuilder:printcolumn:name="Chain",type=string,JSONPath=`.spec.chain`,priority=1
// +kubebuilder:printcolumn:name="CA Bit",type=string,JSONPath=`.spec.profile.certificateAuthorities`,priority=1
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Signer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SignerSpec `json:"spec"`
	// +optional
	Status SignerStatus `json:"status,omitempty"`
}

// SignerList is a list of Signers.
//
// +kubebuilder:object:root=true
type SignerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Signer `json:"items"`
}

// SignerSpec is the specification of a signer.
//
// +kubebuilder:validation:XValidation:rule="!has(self.profile.subject) || !has(self.profile.subject.fromRequest) || !self.profile.subject.fromRequest || !('PodCertificateRequest' in self.requests)",message="requests of pods have no subject: profile.subject.fromRequest is only for CertificateSigningRequests"
type SignerSpec struct {
	// signerName is the value of spec.signerName in requests: a domain, a slash and a path,
	// such as example.com/workload. It is unique and immutable. The only permitted name
	// under kubernetes.io is kubernetes.io/kube-apiserver-client-pod.
	//
	// +kubebuilder:validation:MaxLength=571
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="signerName is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="must be a domain, a slash and a path, as in example.com/workload"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?kubernetes[.]io/') || self == 'kubernetes.io/kube-apiserver-client-pod'",message="names under kubernetes.io are reserved for Kubernetes: use your own domain, or kubernetes.io/kube-apiserver-client-pod"
	SignerName string `json:"signerName"`
	// requests are the kinds of requests that the signer serves.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=CertificateSigningRequest;PodCertificateRequest
	// +listType=set
	Requests []RequestKind `json:"requests"`
	// ca is the CA that signs. Exactly one of its fields is set.
	CA SignerCA `json:"ca"`
	// profile is the content of certificates and the conditions for getting
	// one.
	Profile SignerProfile `json:"profile"`
	// chain sets the CA certificates that follow an issued certificate. Intermediates: the
	// CAs between the certificate and the root. IntermediatesAndRoot: these CAs and the
	// root. None: only the certificate.
	//
	// +kubebuilder:default=Intermediates
	Chain ChainContent `json:"chain,omitempty"`
	// publishTrustBundle publishes the roots of the signer in ClusterTrustBundle objects
	// with its signer name. After a change of the CA, the old roots are published together
	// with the new ones until the last certificate under them has expired.
	//
	// +kubebuilder:default=true
	PublishTrustBundle *bool `json:"publishTrustBundle,omitempty"`
	// issueOnCreate lets "certplane serve" sign a request within the call that creates it,
	// if it needs no approval or a policy approves it: the response contains the
	// certificate, and one write stores both. If false, requests are signed after they are
	// stored. It has no effect in clusters, for signers with an endpoint, and for CAs with
	// a key on a token or in a cloud.
	//
	// +kubebuilder:default=true
	// +optional
	IssueOnCreate *bool `json:"issueOnCreate,omitempty"`
	// distrustedCAs are the SHA-256 digests of the certificates of CAs whose keys may be
	// compromised, in lower-case hexadecimal digits, as in status.ca.fingerprint.
	// Distrusted CAs do not sign, and trust bundles that contain one of their roots are
	// deleted at once. A generated CA is replaced at once.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{64}$`
	// +listType=set
	// +optional
	DistrustedCAs []string `json:"distrustedCAs,omitempty"`
	// revocation sets what certificates tell verifiers about their revocation. It has no
	// effect for signers with an endpoint.
	//
	// +optional
	Revocation *SignerRevocation `json:"revocation,omitempty"`
}

// SignerRevocation sets what certificates tell verifiers about their revocation.
type SignerRevocation struct {
	// distributionPoints sets whether certificates name the revocation list of their CA as
	// CRL distribution point. Auto: if they live longer than revocation.shortLived of the
	// server's configuration, which sets the address in revocation.url, and if the CA can
	// sign lists. None: never.
	//
	// +kubebuilder:default=Auto
	// +optional
	DistributionPoints DistributionPoints `json:"distributionPoints,omitempty"`
	// noRevAvail adds the extension noRevAvail (RFC 9608) to certificates that live no longer
	// than revocation.shortLived of the server's configuration, a day by default: verifiers
	// that know it look for no list. If unset, revocation.noRevAvail of the configuration
	// applies.
	//
	// +optional
	NoRevAvail *bool `json:"noRevAvail,omitempty"`
}

// DistributionPoints sets whether certificates name a revocation list.
//
// +kubebuilder:validation:Enum=Auto;None
type DistributionPoints string

// Values of DistributionPoints.
const (
	DistributionPointsAuto DistributionPoints = "Auto"
	DistributionPointsNone DistributionPoints = "None"
)

// RequestKind is a kind of request.
type RequestKind string

// The kinds of requests.
const (
	CertificateSigningRequests RequestKind = "CertificateSigningRequest"
	PodCertificateRequests     RequestKind = "PodCertificateRequest"
	// CertificateRequests are answered by issuers, never by a Signer.
	CertificateRequests RequestKind = "CertificateRequest"
)

// ChainContent sets the CA certificates that follow an issued certificate.
//
// +kubebuilder:validation:Enum=Intermediates;IntermediatesAndRoot;None
type ChainContent string

// Values of ChainContent.
const (
	ChainIntermediates        ChainContent = "Intermediates"
	ChainIntermediatesAndRoot ChainContent = "IntermediatesAndRoot"
	ChainNone                 ChainContent = "None"
)

// SignerStatus is the observed state of a signer.
type SignerStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready reports whether the signer signs, and why not.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ca is the current CA.
	//
	// +optional
	CA *CAStatus `json:"ca,omitempty"`
	// nextCA is the CA that takes over once its root has been published for some time.
	//
	// +optional
	NextCA *CAStatus `json:"nextCA,omitempty"`
	// generatedSecret is the name of the Secret in which a generated CA was stored. If the
	// Secret disappears, the signer stops, because a new CA would not be trusted yet.
	//
	// +optional
	GeneratedSecret string `json:"generatedSecret,omitempty"`
	// formerCAs are previous CAs. Some of their certificates may still be valid.
	//
	// +listType=atomic
	// +optional
	FormerCAs []CAStatus `json:"formerCAs,omitempty"`
	// issued is the number of issued certificates, for both kinds of requests together.
	//
	// +optional
	Issued int64 `json:"issued,omitempty"`
	// refused is the number of requests that were denied or failed.
	//
	// +optional
	Refused int64 `json:"refused,omitempty"`
	// lastIssuedTime is when the last certificate was issued.
	//
	// +optional
	LastIssuedTime *metav1.Time `json:"lastIssuedTime,omitempty"`
}

// CAStatus is the observed state of a CA.
type CAStatus struct {
	// fingerprint is the SHA-256 digest of the certificate, in lower-case
	// hexadecimal digits.
	Fingerprint string `json:"fingerprint"`
	// subject is the subject of the certificate.
	//
	// +optional
	Subject string `json:"subject,omitempty"`
	// notBefore and notAfter are the validity of the CA certificate.
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
	// subjectKeyID is the subject key identifier of the certificate, in lower-case
	// hexadecimal digits. Certificates that the CA issues contain it as authority key
	// identifier.
	//
	// +optional
	SubjectKeyID string `json:"subjectKeyID,omitempty"`
	// longestLifetime is the longest lifetime that the profile permitted while this CA
	// signed. After the CA is replaced, its root stays published for this time.
	//
	// +optional
	LongestLifetime *metav1.Duration `json:"longestLifetime,omitempty"`
	// signsFrom is when the next CA takes over. It is set once the root of that CA is
	// published.
	//
	// +optional
	SignsFrom *metav1.Time `json:"signsFrom,omitempty"`
	// replacedTime is when another CA replaced this former CA.
	//
	// +optional
	ReplacedTime *metav1.Time `json:"replacedTime,omitempty"`
	// trustedUntil is the time until which the root of a former CA stays published.
	//
	// +optional
	TrustedUntil *metav1.Time `json:"trustedUntil,omitempty"`
}

// Ready is the condition that reports whether a signer signs.
const Ready = "Ready"
