package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Signer is a signer that is declared instead of programmed: what KEP-1513
// asks every signer to state about itself is a field here, and is enforced.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:selectablefield:JSONPath=`.spec.signerName`
// +kubebuilder:printcolumn:name="Signer",type=string,JSONPath=`.spec.signerName`
// +kubebuilder:printcolumn:name="Requests",type=string,JSONPath=`.spec.requests`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="CA Expires",type=string,JSONPath=`.status.ca.notAfter`
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

// SignerSpec says what a signer does.
//
// +kubebuilder:validation:XValidation:rule="!has(self.profile.subject) || !has(self.profile.subject.fromRequest) || !self.profile.subject.fromRequest || !('PodCertificateRequest' in self.requests)",message="requests of pods have no subject: profile.subject.fromRequest is for CertificateSigningRequests alone"
type SignerSpec struct {
	// signerName is what requests name in their spec.signerName: a domain, a
	// slash and a path, such as example.com/workload. No two Signers can have
	// the same one, and it never changes. Of the names under kubernetes.io only
	// kubernetes.io/kube-apiserver-client-pod can be declared.
	//
	// +kubebuilder:validation:MaxLength=571
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="signerName is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="must be a domain, a slash and a path, as in example.com/workload"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?kubernetes[.]io/') || self == 'kubernetes.io/kube-apiserver-client-pod'",message="names under kubernetes.io are Kubernetes' own: use a domain of yours, or kubernetes.io/kube-apiserver-client-pod"
	SignerName string `json:"signerName"`
	// requests are the kinds of requests that the signer serves.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	Requests []RequestKind `json:"requests"`
	// ca is who signs. Exactly one of its fields is set.
	CA SignerCA `json:"ca"`
	// profile is what certificates look like and who gets them.
	Profile SignerProfile `json:"profile"`
	// chain says what stands after the certificate in what a requester gets.
	// Intermediates is the CAs between the certificate and the root,
	// IntermediatesAndRoot is these and the root, None is nothing.
	//
	// +kubebuilder:default=Intermediates
	Chain ChainContent `json:"chain,omitempty"`
	// publishTrustBundle publishes the roots of the signer as ClusterTrustBundle
	// objects that are linked to it. While the CA changes, the old roots are
	// published beside the new ones until the last certificate under them has
	// ended.
	//
	// +kubebuilder:default=true
	PublishTrustBundle *bool `json:"publishTrustBundle,omitempty"`
}

// RequestKind is a kind of request of certificates.k8s.io.
//
// +kubebuilder:validation:Enum=CertificateSigningRequest;PodCertificateRequest
type RequestKind string

// The kinds of requests.
const (
	CertificateSigningRequests RequestKind = "CertificateSigningRequest"
	PodCertificateRequests     RequestKind = "PodCertificateRequest"
)

// ChainContent says which CAs a requester gets with its certificate.
//
// +kubebuilder:validation:Enum=Intermediates;IntermediatesAndRoot;None
type ChainContent string

// What can stand after a certificate.
const (
	ChainIntermediates        ChainContent = "Intermediates"
	ChainIntermediatesAndRoot ChainContent = "IntermediatesAndRoot"
	ChainNone                 ChainContent = "None"
)

// SignerCA is who signs: a CA, or an endpoint that has one.
//
// +kubebuilder:validation:XValidation:rule="[has(self.generated), has(self.secret), has(self.key), has(self.builtIn), has(self.webhook)].filter(set, set).size() == 1",message="exactly one of generated, secret, key, builtIn and webhook must be set"
type SignerCA struct {
	// generated is a CA that certplane makes, keeps in a Secret and replaces
	// before it ends.
	//
	// +optional
	Generated *GeneratedCA `json:"generated,omitempty"`
	// secret is a CA in a Secret of type kubernetes.io/tls. A changed Secret is
	// used as soon as its key and certificate belong together.
	//
	// +optional
	Secret *SecretCA `json:"secret,omitempty"`
	// key is a CA whose key stays where it is: on a token or in a cloud.
	//
	// +optional
	Key *KeyCA `json:"key,omitempty"`
	// builtIn is the CA of the built-in signers of kubernetes.io: the one that
	// API servers trust for client certificates.
	//
	// +optional
	BuiltIn *BuiltInCA `json:"builtIn,omitempty"`
	// webhook is an HTTPS endpoint that signs: see docs/webhook-signer.md.
	//
	// +optional
	Webhook *WebhookCA `json:"webhook,omitempty"`
}

// GeneratedCA is a CA that certplane makes by itself.
type GeneratedCA struct {
	// secretName is the Secret in which the CA is kept, in the namespace of
	// certplane's own service accounts. Default: "signer-" and the Signer's
	// name.
	//
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// commonName is the subject of the CA. Default: the signer's name.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// keyType is the kind of the CA's key.
	//
	// +kubebuilder:default=ECDSAP256
	// +optional
	KeyType KeyType `json:"keyType,omitempty"`
	// lifetime is how long each CA is valid. At least 1h.
	//
	// +kubebuilder:default="87600h"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Lifetime *metav1.Duration `json:"lifetime,omitempty"`
	// rotateBefore is how long before the end of a CA its successor takes over.
	// Default: a third of lifetime. At least the longest life of a certificate,
	// or certificates would be cut short.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	RotateBefore *metav1.Duration `json:"rotateBefore,omitempty"`
}

// SecretCA is a CA in a Secret.
type SecretCA struct {
	// name is that of the Secret, in the namespace of certplane's own service
	// accounts. Its tls.crt is the CA and the chain to its root, tls.key the key.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// KeyCA is a CA whose key is not in the API.
type KeyCA struct {
	// uri says where the key is, such as pkcs11:... or awskms:...: see
	// docs/ca-keys.md. Secrets such as PINs do not belong here, but in files
	// that the URI names.
	//
	// +kubebuilder:validation:MinLength=1
	URI string `json:"uri"`
	// certificate is the CA and the chain to its root, in PEM.
	//
	// +kubebuilder:validation:MinLength=1
	Certificate string `json:"certificate"`
}

// BuiltInCA has no fields: there is one such CA.
type BuiltInCA struct{}

// WebhookCA is an HTTPS endpoint that signs.
type WebhookCA struct {
	// url is where requests are sent. Its scheme is https.
	//
	// +kubebuilder:validation:Pattern=`^https://`
	URL string `json:"url"`
	// caBundle is what the endpoint's certificate must chain to, in PEM.
	// Default: the roots of the system.
	//
	// +optional
	CABundle string `json:"caBundle,omitempty"`
	// credentials is a Secret, in the namespace of certplane's own service
	// accounts, with a client certificate (tls.crt, tls.key) or a bearer token
	// (token).
	//
	// +optional
	Credentials *SecretCA `json:"credentials,omitempty"`
	// timeout is for one attempt.
	//
	// +kubebuilder:default="10s"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// roots are those of what the endpoint issues, in PEM. Needed to publish
	// trust bundles.
	//
	// +optional
	Roots string `json:"roots,omitempty"`
}

// KeyType is a kind of key, by the names that pods have for them.
//
// +kubebuilder:validation:Enum=RSA2048;RSA3072;RSA4096;ECDSAP256;ECDSAP384;ECDSAP521;ED25519
type KeyType string

// The key types.
const (
	RSA2048   KeyType = "RSA2048"
	RSA3072   KeyType = "RSA3072"
	RSA4096   KeyType = "RSA4096"
	ECDSAP256 KeyType = "ECDSAP256"
	ECDSAP384 KeyType = "ECDSAP384"
	ECDSAP521 KeyType = "ECDSAP521"
	ED25519   KeyType = "ED25519"
)

// CEL is an expression of the Common Expression Language, in the dialect and
// with the libraries of Kubernetes' own expressions. It sees
//
//   - request: kind, name, namespace, uid, subject (commonName, organizations,
//     organizationalUnits, text), dnsNames, ipAddresses, uris, emailAddresses,
//     usages, keyType, expirationSeconds (if has(request.expirationSeconds)),
//     annotations (of pods' requests: what the pod's author wrote, not verified)
//   - requester: username, uid, groups, extra. Of a pod's request it is the
//     pod's service account
//   - pod, serviceAccount, node, namespaceObject: what a pod's request is about,
//     each with metadata (name, namespace, uid, labels, annotations), and
//     pod.spec
//   - services: those that select the pod and that its service account may
//     claim, each with name and namespace
//
// The last two exist if the signer serves PodCertificateRequests, and have
// values in these. An expression that has no value for a request, because what
// it looks at is not there, refuses the request.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type CEL string

// SignerProfile is what certificates look like and who gets them. A
// certificate contains what the expressions yield and nothing else. A request
// that asks for more than it would get is denied.
type SignerProfile struct {
	// subject is the subject of certificates. Default: an empty one, which needs
	// names.
	//
	// +optional
	Subject SubjectProfile `json:"subject,omitzero"`
	// names are the subject alternative names of certificates.
	//
	// +optional
	Names NamesProfile `json:"names,omitzero"`
	// rules must all hold for a request to get a certificate.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Rules []ProfileRule `json:"rules,omitempty"`
	// annotations are the keys that a pod may give in userAnnotations. Requests
	// with others are denied: InvalidUnverifiedUserAnnotations.
	//
	// +listType=set
	// +optional
	Annotations []string `json:"annotations,omitempty"`
	// keyTypes are the keys that get certificates. Requests with others are
	// denied: UnsupportedKeyType. Default: all but RSA2048.
	//
	// +listType=set
	// +optional
	KeyTypes []KeyType `json:"keyTypes,omitempty"`
	// usages are the usages of certificates, by the names that
	// CertificateSigningRequests have for them. A CertificateSigningRequest
	// gets those that it asks for and is denied others; a pod gets all.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Enum="signing";"digital signature";"content commitment";"key encipherment";"key agreement";"data encipherment";"encipher only";"decipher only";"any";"server auth";"client auth";"code signing";"email protection";"s/mime";"ipsec end system";"ipsec tunnel";"ipsec user";"timestamping";"ocsp signing";"microsoft sgc";"netscape sgc"
	// +listType=set
	Usages []string `json:"usages"`
	// certificateAuthorities says what happens to requests for CA certificates.
	// No Signer issues such: Refuse denies them, Ignore issues a certificate
	// that is none.
	//
	// +kubebuilder:validation:Enum=Refuse;Ignore
	// +kubebuilder:default=Refuse
	// +optional
	CertificateAuthorities CARequests `json:"certificateAuthorities,omitempty"`
	// extensions says what happens to requested X.509 extensions for which
	// there is no field here. None is ever copied: Refuse denies such requests,
	// Ignore leaves the extensions out.
	//
	// +kubebuilder:validation:Enum=Refuse;Ignore
	// +kubebuilder:default=Refuse
	// +optional
	Extensions ExtensionRequests `json:"extensions,omitempty"`
	// lifetime is how long certificates are valid.
	//
	// +optional
	Lifetime LifetimeProfile `json:"lifetime,omitzero"`
	// refresh is when holders of pod certificates are to get the next one.
	//
	// +optional
	Refresh RefreshProfile `json:"refresh,omitzero"`
}

// CARequests says what happens to requests for CA certificates.
type CARequests string

// ExtensionRequests says what happens to requests for extensions.
type ExtensionRequests string

// What can happen to what a request asks for in vain.
const (
	RefuseCAs        CARequests        = "Refuse"
	IgnoreCAs        CARequests        = "Ignore"
	RefuseExtensions ExtensionRequests = "Refuse"
	IgnoreExtensions ExtensionRequests = "Ignore"
)

// SubjectProfile is what the subject of a certificate is made of.
type SubjectProfile struct {
	// fromRequest takes the subject as it is requested, byte for byte. Only for
	// CertificateSigningRequests, and instead of the other fields; rules can
	// look at it as request.subject.
	//
	// +optional
	FromRequest bool `json:"fromRequest,omitempty"`
	// commonName yields a string.
	//
	// +optional
	CommonName CEL `json:"commonName,omitempty"`
	// organizations yields a list of strings.
	//
	// +optional
	Organizations CEL `json:"organizations,omitempty"`
	// organizationalUnits yields a list of strings.
	//
	// +optional
	OrganizationalUnits CEL `json:"organizationalUnits,omitempty"`
}

// NamesProfile is what the alternative names of a certificate are made of.
// Each expression yields a list of strings; request.dnsNames, for example,
// yields those that are asked for.
type NamesProfile struct {
	// +optional
	DNSNames CEL `json:"dnsNames,omitempty"`
	// +optional
	IPAddresses CEL `json:"ipAddresses,omitempty"`
	// +optional
	URIs CEL `json:"uris,omitempty"`
	// +optional
	EmailAddresses CEL `json:"emailAddresses,omitempty"`
}

// ProfileRule is what has to be true of a request.
type ProfileRule struct {
	// expression yields whether the rule holds.
	Expression CEL `json:"expression"`
	// message is what the requester is told if not. Default: the expression.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// messageExpression yields that message.
	//
	// +optional
	MessageExpression CEL `json:"messageExpression,omitempty"`
	// reason is that of the Denied or Failed condition, a CamelCase word.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:default=RuleViolated
	// +optional
	Reason string `json:"reason,omitempty"`
}

// LifetimeProfile is how long certificates are valid.
type LifetimeProfile struct {
	// maximum is the longest life. A request for more gets this much. At least
	// 1h for pods' certificates.
	//
	// +kubebuilder:default="24h"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Maximum *metav1.Duration `json:"maximum,omitempty"`
	// default is the life of certificates whose request names none. Default:
	// maximum.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Default *metav1.Duration `json:"default,omitempty"`
	// backdate is how long before its making a certificate begins, for clients
	// whose clocks are behind. It is part of the life. Less than 5m for pods'
	// certificates.
	//
	// +kubebuilder:default="2m"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Backdate *metav1.Duration `json:"backdate,omitempty"`
}

// RefreshProfile is when the next certificate is due.
type RefreshProfile struct {
	// atPercent is the part of a certificate's life after which it is to be
	// refreshed.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	// +kubebuilder:default=66
	// +optional
	AtPercent int32 `json:"atPercent,omitempty"`
	// jitterPercent is by which part of its life the moment is moved, earlier
	// or later, for each request differently, so that not all come at once.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=30
	// +kubebuilder:default=10
	// +optional
	JitterPercent *int32 `json:"jitterPercent,omitempty"`
}

// SignerStatus is what is known of a signer.
type SignerStatus struct {
	// observedGeneration is the generation of the spec that the rest is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready says whether the signer signs, and why not.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ca is the CA that signs now.
	//
	// +optional
	CA *CAStatus `json:"ca,omitempty"`
	// formerCAs are those before, some of whose certificates may still be valid.
	//
	// +listType=atomic
	// +optional
	FormerCAs []CAStatus `json:"formerCAs,omitempty"`
	// issued counts certificates, of both kinds of requests.
	//
	// +optional
	Issued int64 `json:"issued,omitempty"`
	// refused counts requests that were denied or failed.
	//
	// +optional
	Refused int64 `json:"refused,omitempty"`
	// lastIssuedTime is when the last certificate was made.
	//
	// +optional
	LastIssuedTime *metav1.Time `json:"lastIssuedTime,omitempty"`
}

// CAStatus is what is known of a CA.
type CAStatus struct {
	// fingerprint is the SHA-256 of the certificate, in lower-case hexadecimal
	// digits.
	Fingerprint string `json:"fingerprint"`
	// subject is that of the certificate.
	//
	// +optional
	Subject string `json:"subject,omitempty"`
	// notBefore and notAfter are when the CA is valid.
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
	// trustedUntil is until when a former CA is published as a root.
	//
	// +optional
	TrustedUntil *metav1.Time `json:"trustedUntil,omitempty"`
}

// Ready is the condition that says whether a signer signs.
const Ready = "Ready"
