package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Signer is a signer that is declared instead of programmed: the properties
// that KEP-1513 requires every signer to document are fields here, and are
// enforced.
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
	// signerName is the value of spec.signerName in requests: a domain, a slash
	// and a path, such as example.com/workload. It is unique and immutable. Of
	// the names under kubernetes.io only
	// kubernetes.io/kube-apiserver-client-pod can be declared.
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
	// ca is what signs. Exactly one of its fields is set.
	CA SignerCA `json:"ca"`
	// profile is the content of certificates and the conditions for getting
	// one.
	Profile SignerProfile `json:"profile"`
	// chain says which CAs a requester gets after its certificate.
	// Intermediates are the CAs between the certificate and the root,
	// IntermediatesAndRoot are these and the root, None is no CA.
	//
	// +kubebuilder:default=Intermediates
	Chain ChainContent `json:"chain,omitempty"`
	// publishTrustBundle publishes the roots of the signer as
	// ClusterTrustBundle objects with its signer name. After a change of the
	// CA, the old roots are published together with the new ones until the last
	// certificate under them has expired.
	//
	// +kubebuilder:default=true
	PublishTrustBundle *bool `json:"publishTrustBundle,omitempty"`
	// issueOnCreate has "certplane serve" sign requests within the calls that create
	// them, if they need no approval or a policy approves them: the answer has the
	// certificate, and one write stores both. With false, requests are signed after
	// they are stored. It has no effect in clusters, for signers with an endpoint, and
	// for CAs with a key on a token or in a cloud.
	//
	// +kubebuilder:default=true
	// +optional
	IssueOnCreate *bool `json:"issueOnCreate,omitempty"`
	// distrustedCAs are the SHA-256 digests of the certificates of CAs whose keys
	// may be known to others, in lower-case hexadecimal digits, as in
	// status.ca.fingerprint. They do not sign, and their roots are not published:
	// trust bundles with one of them are deleted at once. A generated CA is
	// replaced at once.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{64}$`
	// +listType=set
	// +optional
	DistrustedCAs []string `json:"distrustedCAs,omitempty"`
}

// RequestKind is a kind of request.
type RequestKind string

// The kinds of requests.
const (
	CertificateSigningRequests RequestKind = "CertificateSigningRequest"
	PodCertificateRequests     RequestKind = "PodCertificateRequest"
	// CertificateRequests are answered by issuers, and by no Signer.
	CertificateRequests RequestKind = "CertificateRequest"
)

// ChainContent says which CAs a requester gets with its certificate.
//
// +kubebuilder:validation:Enum=Intermediates;IntermediatesAndRoot;None
type ChainContent string

// What can follow a certificate.
const (
	ChainIntermediates        ChainContent = "Intermediates"
	ChainIntermediatesAndRoot ChainContent = "IntermediatesAndRoot"
	ChainNone                 ChainContent = "None"
)

// SignerStatus is the observed state of a signer.
type SignerStatus struct {
	// observedGeneration is the generation of the spec that the status is
	// about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready says whether the signer signs, and why not.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ca is the current CA.
	//
	// +optional
	CA *CAStatus `json:"ca,omitempty"`
	// nextCA is the CA that takes over when its root has been published for some time.
	//
	// +optional
	NextCA *CAStatus `json:"nextCA,omitempty"`
	// generatedSecret is the name of the Secret in which a generated CA was stored.
	// If it disappears, the signer stops: another CA is not trusted yet.
	//
	// +optional
	GeneratedSecret string `json:"generatedSecret,omitempty"`
	// formerCAs are previous CAs, some of whose certificates may still be
	// valid.
	//
	// +listType=atomic
	// +optional
	FormerCAs []CAStatus `json:"formerCAs,omitempty"`
	// issued is the number of issued certificates, for both kinds of requests.
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
	// notBefore and notAfter are the validity of the CA.
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
	// subjectKeyID is the subject key identifier of the certificate, in lower-case
	// hexadecimal digits. Certificates of the CA have it as authority key identifier.
	//
	// +optional
	SubjectKeyID string `json:"subjectKeyID,omitempty"`
	// longestLifetime is the longest lifetime that the profile has permitted while
	// this CA signed. Its root is published that long after it has been replaced.
	//
	// +optional
	LongestLifetime *metav1.Duration `json:"longestLifetime,omitempty"`
	// signsFrom is when a next CA takes over. It is not set until the root of that
	// CA is published.
	//
	// +optional
	SignsFrom *metav1.Time `json:"signsFrom,omitempty"`
	// replacedTime is when another CA has taken the place of a former one.
	//
	// +optional
	ReplacedTime *metav1.Time `json:"replacedTime,omitempty"`
	// trustedUntil is the time until which a former CA is published as a root.
	//
	// +optional
	TrustedUntil *metav1.Time `json:"trustedUntil,omitempty"`
}

// Ready is the condition that says whether a signer signs.
const Ready = "Ready"
