package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KeyType is a type of key, named as in projected volumes of pods.
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

// CEL is an expression of the Common Expression Language, in the dialect and with the
// libraries of Kubernetes. Its variables are
//
//   - request: kind, name, namespace, uid, subject (commonName, organizations,
//     organizationalUnits, text), dnsNames, ipAddresses, uris, emailAddresses,
//     usages, keyType, expirationSeconds (if has(request.expirationSeconds)),
//     annotations (of pods' requests: what the pod's author wrote, not verified)
//   - requester: username, uid, groups, extra. For a pod's request it is the
//     pod's service account
//   - pod, serviceAccount, node, namespaceObject: the objects that a pod's
//     request is about, each with metadata (name, namespace, uid, labels,
//     annotations), and pod.spec
//   - services: those that select the pod and that its service account may
//     claim, each with name and namespace
//
// The last two exist only if the signer serves PodCertificateRequests, and are set only for
// these. If the evaluation fails, for example because a field does not exist, the request
// is refused.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type CEL string

// SignerProfile is the content of certificates and the conditions for getting one. A
// certificate contains only the results of the expressions. A request that asks for more
// than the profile grants is denied.
type SignerProfile struct {
	// subject is the subject of certificates. Default: an empty subject; certificates must
	// then contain names.
	//
	// +optional
	Subject SubjectProfile `json:"subject,omitzero"`
	// names are the subject alternative names of certificates.
	//
	// +optional
	Names NamesProfile `json:"names,omitzero"`
	// rules are conditions that a request must meet to get a certificate.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Rules []ProfileRule `json:"rules,omitempty"`
	// annotations are the keys that a pod may set in userAnnotations. Requests with other
	// keys are denied with the reason InvalidUnverifiedUserAnnotations.
	//
	// +listType=set
	// +optional
	Annotations []string `json:"annotations,omitempty"`
	// keyTypes are the permitted types of keys. Requests with other keys are denied with
	// the reason UnsupportedKeyType. Default: all types except RSA2048.
	//
	// +listType=set
	// +optional
	KeyTypes []KeyType `json:"keyTypes,omitempty"`
	// usages are the usages of certificates, by their names in CertificateSigningRequests.
	// A CertificateSigningRequest gets the usages that it requests, and is denied if it
	// requests a usage that is not listed. A pod gets all listed usages.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Enum="signing";"digital signature";"content commitment";"key encipherment";"key agreement";"data encipherment";"encipher only";"decipher only";"any";"server auth";"client auth";"code signing";"email protection";"s/mime";"ipsec end system";"ipsec tunnel";"ipsec user";"timestamping";"ocsp signing";"microsoft sgc";"netscape sgc"
	// +listType=set
	Usages []string `json:"usages"`
	// certificateAuthorities sets how requests for CA certificates are handled. Signers
	// never issue CA certificates: Refuse denies the requests, Ignore issues ordinary
	// certificates.
	//
	// +kubebuilder:validation:Enum=Refuse;Ignore
	// +kubebuilder:default=Refuse
	// +optional
	CertificateAuthorities CARequests `json:"certificateAuthorities,omitempty"`
	// extensions sets how requested X.509 extensions without a field in this profile are
	// handled. They are never copied: Refuse denies the requests, Ignore omits the
	// extensions.
	//
	// +kubebuilder:validation:Enum=Refuse;Ignore
	// +kubebuilder:default=Refuse
	// +optional
	Extensions ExtensionRequests `json:"extensions,omitempty"`
	// lifetime is how long certificates are valid.
	//
	// +kubebuilder:default={}
	// +optional
	Lifetime LifetimeProfile `json:"lifetime,omitzero"`
	// refresh is when pods should replace their certificates.
	//
	// +kubebuilder:default={}
	// +optional
	Refresh RefreshProfile `json:"refresh,omitzero"`
}

// CARequests is how requests for CA certificates are handled.
type CARequests string

// ExtensionRequests is how requests for extensions are handled.
type ExtensionRequests string

// Values of CARequests and ExtensionRequests.
const (
	RefuseCAs        CARequests        = "Refuse"
	IgnoreCAs        CARequests        = "Ignore"
	RefuseExtensions ExtensionRequests = "Refuse"
	IgnoreExtensions ExtensionRequests = "Ignore"
)

// SubjectProfile sets the subject of certificates.
type SubjectProfile struct {
	// fromRequest copies the requested subject, byte for byte. Only for
	// CertificateSigningRequests; it cannot be combined with the other fields. Rules can
	// check the subject as request.subject.
	//
	// +optional
	FromRequest bool `json:"fromRequest,omitempty"`
	// commonName returns a string.
	//
	// +optional
	CommonName CEL `json:"commonName,omitempty"`
	// organizations returns a list of strings.
	//
	// +optional
	Organizations CEL `json:"organizations,omitempty"`
	// organizationalUnits returns a list of strings.
	//
	// +optional
	OrganizationalUnits CEL `json:"organizationalUnits,omitempty"`
}

// NamesProfile sets the subject alternative names of certificates. Each expression returns
// a list of strings; request.dnsNames, for example, returns the requested DNS names.
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

// ProfileRule is a condition that requests must meet.
type ProfileRule struct {
	// expression returns true if the request meets the condition.
	Expression CEL `json:"expression"`
	// message explains to the requester why the request was refused. Default: the
	// expression.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// messageExpression returns the message. It takes precedence over message.
	//
	// +optional
	MessageExpression CEL `json:"messageExpression,omitempty"`
	// reason is the reason of the Denied or Failed condition, a CamelCase word.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:default=RuleViolated
	// +optional
	Reason string `json:"reason,omitempty"`
}

// LifetimeProfile is how long certificates are valid.
type LifetimeProfile struct {
	// maximum is the longest lifetime. A request for a longer lifetime gets this one. At
	// least 1h for pods' certificates.
	//
	// +kubebuilder:default="24h"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Maximum *metav1.Duration `json:"maximum,omitempty"`
	// default is the lifetime of certificates if the request sets none.
	// Default: maximum.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Default *metav1.Duration `json:"default,omitempty"`
	// backdate is how long before its issuance a certificate becomes valid, for clients
	// whose clocks are behind. It is part of the lifetime. Less than 5m for pods'
	// certificates.
	//
	// +kubebuilder:default="2m"
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Backdate *metav1.Duration `json:"backdate,omitempty"`
}

// RefreshProfile sets when pods should replace their certificates.
type RefreshProfile struct {
	// atPercent is the part of a certificate's lifetime after which it should be replaced,
	// in percent.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	// +kubebuilder:default=66
	// +optional
	AtPercent int32 `json:"atPercent,omitempty"`
	// jitterPercent moves that time earlier or later by at most this part of the lifetime,
	// in percent. The amount differs between requests, so that pods do not replace their
	// certificates all at once.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=30
	// +kubebuilder:default=10
	// +optional
	JitterPercent *int32 `json:"jitterPercent,omitempty"`
}
