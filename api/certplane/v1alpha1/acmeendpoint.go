package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AcmeEndpoint is a directory of the ACME server (RFC 8555). It sets which clients may
// create accounts, which names they may order, and which signers issue the certificates.
// Each order becomes one CertificateSigningRequest or CertificateRequest of the account's
// ServiceAccount, and all rules for such requests apply.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Directory",type=string,JSONPath=`.status.directory`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Accounts",type=integer,JSONPath=`.status.accounts`
// +kubebuilder:printcolumn:name="Fingerprint",type=string,JSONPath=`.status.trust.fingerprint`,priority=1
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$')",message="the name is part of URLs: it must be a DNS label of at most 40 characters"
type AcmeEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AcmeEndpointSpec `json:"spec"`
	// +optional
	Status AcmeEndpointStatus `json:"status,omitempty"`
}

// AcmeEndpointList is a list of AcmeEndpoints.
//
// +kubebuilder:object:root=true
type AcmeEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AcmeEndpoint `json:"items"`
}

// AcmeEndpointSpec is the specification of an endpoint.
//
// +kubebuilder:validation:XValidation:rule="self.accounts.admission == 'ExternalKey' || has(self.accounts.serviceAccount)",message="accounts without an external key act as accounts.serviceAccount: set it, or accounts.admission to ExternalKey"
// +kubebuilder:validation:XValidation:rule="self.accounts.admission == 'ExternalKey' || self.challenges.types.size() > 0",message="without challenges, names must be preauthorized by external keys: set accounts.admission to ExternalKey"
type AcmeEndpointSpec struct {
	// accounts sets which clients may create an account, and the ServiceAccount of accounts
	// without an external key.
	Accounts AcmeAccounts `json:"accounts"`
	// identifiers are the names and addresses for which clients can order certificates.
	// Types of identifiers without an allowed value are refused.
	Identifiers AcmeIdentifiers `json:"identifiers"`
	// profiles are the kinds of certificates that clients can order. The first one is the
	// default.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Profiles []AcmeProfile `json:"profiles"`
	// approval sets which requests a person has to approve.
	//
	// +kubebuilder:default={}
	Approval AcmeApproval `json:"approval,omitempty"`
	// challenges sets how clients prove control of a name, and which addresses the server
	// connects to for the proof.
	//
	// +kubebuilder:default={}
	Challenges AcmeChallenges `json:"challenges,omitempty"`
	// orders sets how long orders, authorizations and certificate chains are kept.
	//
	// +kubebuilder:default={}
	Orders AcmeOrders `json:"orders,omitempty"`
	// limits are rate limits and quotas of accounts.
	//
	// +kubebuilder:default={}
	Limits AcmeLimits `json:"limits,omitempty"`
	// renewal sets when clients should renew their certificates (RFC 9773).
	//
	// +kubebuilder:default={}
	Renewal AcmeRenewal `json:"renewal,omitempty"`
	// revocation sets the effect of a request to revoke a certificate. Publish: a Revocation
	// is created, so that the certificate is refused and on the list of its CA; only for
	// "certplane serve". Record: the revocation is recorded in the order; the certificate is
	// still accepted, and on no revocation list. Refuse: the request is refused.
	//
	// +kubebuilder:default=Record
	// +kubebuilder:validation:Enum=Publish;Record;Refuse
	Revocation AcmeRevocation `json:"revocation,omitempty"`
	// website is the URL of a page for people about the server.
	//
	// +kubebuilder:validation:MaxLength=2000
	// +optional
	Website string `json:"website,omitempty"`
	// tolerate lists deviations from the standard that the server accepts. paddedBase64:
	// base64url with padding. shortECDSASignatures: signatures without leading zero bytes.
	// moreAlgorithms: RS384, RS512 and PS256 to PS512. largeRSA: account keys of up to 8192
	// bits. commonNameOnly: certificate requests without a subjectAltName.
	// otherCSRVersions: certificate requests with another version than PKCS #10 sets (the
	// Ruby gem acme-client sends such requests). The last two are needed only for signers
	// that copy certificate requests; for other signers, the server always accepts both.
	//
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:Enum=paddedBase64;shortECDSASignatures;moreAlgorithms;largeRSA;commonNameOnly;otherCSRVersions
	// +listType=set
	// +optional
	Tolerate []AcmeTolerance `json:"tolerate,omitempty"`
}

// AcmeTolerance is a deviation from the standard that the server accepts.
type AcmeTolerance string

// Deviations that an endpoint can accept.
const (
	AcmeToleratePaddedBase64         AcmeTolerance = "paddedBase64"
	AcmeTolerateShortECDSASignatures AcmeTolerance = "shortECDSASignatures"
	AcmeTolerateMoreAlgorithms       AcmeTolerance = "moreAlgorithms"
	AcmeTolerateLargeRSA             AcmeTolerance = "largeRSA"
	AcmeTolerateCommonNameOnly       AcmeTolerance = "commonNameOnly"
	AcmeTolerateOtherCSRVersions     AcmeTolerance = "otherCSRVersions"
)

// AcmeRevocation is the effect of a request to revoke a certificate.
type AcmeRevocation string

// Effects of a request to revoke a certificate.
const (
	AcmeRevocationPublish AcmeRevocation = "Publish"
	AcmeRevocationRecord  AcmeRevocation = "Record"
	AcmeRevocationRefuse  AcmeRevocation = "Refuse"
)

// AcmeAdmission is a condition for creating an account.
//
// +kubebuilder:validation:Enum=Open;ExternalKey;Approval
type AcmeAdmission string

// Conditions for creating an account.
const (
	AcmeAdmissionOpen        AcmeAdmission = "Open"
	AcmeAdmissionExternalKey AcmeAdmission = "ExternalKey"
	AcmeAdmissionApproval    AcmeAdmission = "Approval"
)

// AcmeAccounts sets which clients may create accounts.
type AcmeAccounts struct {
	// admission sets which clients may create an account. ExternalKey: clients with the key
	// of an AcmeExternalKey. Open: every client that can connect to the server. Approval:
	// as Open, but a person has to approve an account without an external key before it can
	// place orders.
	//
	// +kubebuilder:default=ExternalKey
	Admission AcmeAdmission `json:"admission,omitempty"`
	// serviceAccount is the ServiceAccount as which accounts without an external key act.
	//
	// +optional
	ServiceAccount *AcmeServiceAccount `json:"serviceAccount,omitempty"`
	// termsOfService is the URL of terms that clients have to agree to. When it changes,
	// accounts have to agree again.
	//
	// +kubebuilder:validation:MaxLength=2000
	// +optional
	TermsOfService string `json:"termsOfService,omitempty"`
	// contactRequired refuses accounts without a contact.
	//
	// +optional
	ContactRequired bool `json:"contactRequired,omitempty"`
}

// AcmeServiceAccount is a ServiceAccount.
type AcmeServiceAccount struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AcmeIdentifiers are the names and addresses for which clients can order certificates.
type AcmeIdentifiers struct {
	// dns are the DNS names.
	//
	// +optional
	DNS *AcmeDNSNames `json:"dns,omitempty"`
	// ip are the IP addresses (RFC 8738).
	//
	// +optional
	IP *AcmeAddresses `json:"ip,omitempty"`
	// maxPerOrder is the maximum number of names and addresses in an order.
	//
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxPerOrder int32 `json:"maxPerOrder,omitempty"`
	// rules are further conditions. An order is refused if one of them is false.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Rules []AcmeRule `json:"rules,omitempty"`
}

// AcmeDNSNames is a set of DNS names.
type AcmeDNSNames struct {
	// allow are names, and patterns such as *.corp.example for the names below
	// corp.example, at any depth.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Allow []string `json:"allow,omitempty"`
	// deny are names and patterns that are refused even if allow includes them.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Deny []string `json:"deny,omitempty"`
	// wildcards sets whether clients can order certificates for wildcards such as
	// *.corp.example.
	//
	// +kubebuilder:default=Allow
	// +kubebuilder:validation:Enum=Allow;Deny
	Wildcards AcmeWildcards `json:"wildcards,omitempty"`
}

// AcmeWildcards sets whether clients can order wildcards.
type AcmeWildcards string

// Values of AcmeWildcards.
const (
	AcmeWildcardsAllow AcmeWildcards = "Allow"
	AcmeWildcardsDeny  AcmeWildcards = "Deny"
)

// AcmeAddresses is a set of addresses.
type AcmeAddresses struct {
	// allow are addresses and networks such as 10.0.0.0/8.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Allow []string `json:"allow,omitempty"`
	// deny are addresses and networks that are refused even if allow includes them.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Deny []string `json:"deny,omitempty"`
}

// AcmeRule is a condition of an order.
type AcmeRule struct {
	// expression is a CEL expression with a boolean result. Its variables are identifiers
	// (a list with type, value and wildcard), account (id, externalKey, namespace,
	// serviceAccount), profile and now.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
	// message is the error that clients get if the expression is false.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// AcmeProfile is a kind of certificate.
//
// +kubebuilder:validation:XValidation:rule="has(self.signer) != has(self.issuer)",message="exactly one of signer and issuer must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.overlap) || has(self.signer)",message="overlap needs a signer: issuers do not publish their roots in ClusterTrustBundles"
type AcmeProfile struct {
	// name identifies the profile: clients send it in their orders.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,32}$`
	Name string `json:"name"`
	// description is the profile's description in the directory.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`
	// signer signs CertificateSigningRequests.
	//
	// +optional
	Signer *AcmeSigner `json:"signer,omitempty"`
	// issuer signs CertificateRequests, in the namespace of the account's
	// ServiceAccount.
	//
	// +optional
	Issuer *AcmeIssuer `json:"issuer,omitempty"`
	// usages are the usages of the certificates. Only certificates with RSA keys get "key
	// encipherment".
	//
	// +kubebuilder:default={"digital signature","key encipherment","server auth"}
	// +kubebuilder:validation:MaxItems=24
	// +listType=set
	// +optional
	Usages []string `json:"usages,omitempty"`
	// lifetime is how long certificates are valid.
	//
	// +kubebuilder:default={}
	Lifetime AcmeLifetime `json:"lifetime,omitempty"`
	// keyTypes are the permitted types of keys.
	//
	// +kubebuilder:default={ECDSAP256,ECDSAP384,ECDSAP521,RSA2048,RSA3072,RSA4096,ED25519}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=ECDSAP256;ECDSAP384;ECDSAP521;RSA2048;RSA3072;RSA4096;ED25519
	// +listType=set
	// +optional
	KeyTypes []string `json:"keyTypes,omitempty"`
	// subject sets the permitted subjects of certificate requests. Any: all subjects; the
	// certificate gets only the common name, if the order includes it. EmptyOrCommonName:
	// an empty subject or a lone common name; other requests are refused. Signers that may
	// copy requests always use EmptyOrCommonName: the signers of kubernetes.io, issuers of
	// types vault and venafi, and signers and issuers of other programs. Default: Any.
	//
	// +kubebuilder:validation:Enum=Any;EmptyOrCommonName
	// +optional
	Subject AcmeSubject `json:"subject,omitempty"`
	// freshKey refuses keys that are already used in a certificate of this endpoint.
	//
	// +optional
	FreshKey bool `json:"freshKey,omitempty"`
	// chains are the roots to which the server offers chains, in order of preference: the
	// first chain is the default, and the others are linked from it (RFC 8555 section
	// 7.4.2). Chains to other roots are not offered. If chains is empty, or none of these
	// roots can be reached, the server offers the signer's chain and every other chain that
	// it finds.
	//
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=root
	// +optional
	Chains []AcmeChain `json:"chains,omitempty"`
	// overlap is how long the signer's ClusterTrustBundles must contain a root before
	// chains to this root are preferred over chains to roots that were published earlier.
	// As long as no root was published for that long, the oldest root comes first. Roots of
	// other signers that cross-signed a CA of this signer need not be published. Default:
	// roots are preferred at once.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	// +optional
	Overlap *metav1.Duration `json:"overlap,omitempty"`
}

// AcmeChain is a chain that the server offers to clients.
type AcmeChain struct {
	// root is the common name of the root, as the CA below it names its issuer.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Root string `json:"root"`
}

// AcmeSubject is the set of permitted subjects of certificate requests.
type AcmeSubject string

// Permitted subjects of certificate requests.
const (
	AcmeSubjectAny               AcmeSubject = "Any"
	AcmeSubjectEmptyOrCommonName AcmeSubject = "EmptyOrCommonName"
)

// AcmeSigner is a signer of CertificateSigningRequests.
type AcmeSigner struct {
	// name is the value of spec.signerName of the requests.
	//
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=571
	Name string `json:"name"`
}

// AcmeIssuer is an issuer of CertificateRequests.
type AcmeIssuer struct {
	// +kubebuilder:default=cert-manager.io
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AcmeLifetime is how long certificates are valid.
type AcmeLifetime struct {
	// default is the lifetime of certificates for orders without notAfter.
	//
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Default metav1.Duration `json:"default,omitempty"`
	// maximum is the longest lifetime.
	//
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Maximum metav1.Duration `json:"maximum,omitempty"`
	// fromOrder sets whether clients may request an earlier expiry with notAfter.
	//
	// +kubebuilder:default=true
	FromOrder *bool `json:"fromOrder,omitempty"`
}

// AcmeApprovalMode sets which requests a person has to approve.
type AcmeApprovalMode string

// Modes of approval.
const (
	AcmeApprovalByRight AcmeApprovalMode = "ByRight"
	AcmeApprovalManual  AcmeApprovalMode = "Manual"
)

// AcmeApproval sets which requests a person has to approve.
type AcmeApproval struct {
	// mode is ByRight or Manual. ByRight: requests of ServiceAccounts with the verb
	// autoapprove on the endpoint are approved automatically. Manual: all requests wait for
	// certificate policies or people.
	//
	// +kubebuilder:default=ByRight
	// +kubebuilder:validation:Enum=ByRight;Manual
	Mode AcmeApprovalMode `json:"mode,omitempty"`
	// carryOver is how long a person's approval of an order also approves later orders of
	// the same account for the same names, or for some of them. 0s: each order needs its
	// own approval.
	//
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	CarryOver metav1.Duration `json:"carryOver,omitempty"`
	// finalizeWait is how long a finalize request waits for the certificate before it is
	// answered.
	//
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('20s')",message="must be at most 20s: clients do not wait longer for an answer"
	FinalizeWait metav1.Duration `json:"finalizeWait,omitempty"`
	// hideReasons omits the reasons of refusals from answers to clients.
	//
	// +optional
	HideReasons bool `json:"hideReasons,omitempty"`
}

// AcmeChallenges sets how clients prove control of a name.
type AcmeChallenges struct {
	// types are the types of challenges that the server offers.
	//
	// +kubebuilder:default={http-01,dns-01,tls-alpn-01}
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=http-01;dns-01;tls-alpn-01
	// +listType=set
	// +optional
	Types []string `json:"types"`
	// http01 configures http-01 challenges.
	//
	// +kubebuilder:default={}
	HTTP01 AcmeHTTP01 `json:"http01,omitempty"`
	// tlsAlpn01 configures tls-alpn-01 challenges (RFC 8737).
	//
	// +kubebuilder:default={}
	TLSALPN01 AcmeTLSALPN01 `json:"tlsAlpn01,omitempty"`
	// dns configures DNS lookups.
	//
	// +kubebuilder:default={}
	DNS AcmeDNS `json:"dns,omitempty"`
	// networks restricts the addresses that the server connects to. By default, private
	// networks are allowed; loopback, link-local and metadata addresses and the addresses
	// of the API are not.
	//
	// +kubebuilder:default={}
	Networks AcmeNetworks `json:"networks,omitempty"`
	// attempts sets how often the server tries to validate a challenge.
	//
	// +kubebuilder:default={}
	Attempts AcmeAttempts `json:"attempts,omitempty"`
}

// AcmeHTTP01 configures http-01 challenges.
type AcmeHTTP01 struct {
	// ports are tried in this order. The standard permits only 80.
	//
	// +kubebuilder:default={80}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=set
	Ports []int32 `json:"ports,omitempty"`
	// redirectPorts are the ports to which a response may redirect.
	//
	// +kubebuilder:default={80,443}
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=set
	// +optional
	RedirectPorts []int32 `json:"redirectPorts,omitempty"`
	// maxRedirects is the maximum number of redirects that are followed.
	//
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	MaxRedirects *int32 `json:"maxRedirects,omitempty"`
}

// AcmeTLSALPN01 configures tls-alpn-01 challenges.
type AcmeTLSALPN01 struct {
	// ports are tried in this order. The standard permits only 443.
	//
	// +kubebuilder:default={443}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=set
	Ports []int32 `json:"ports,omitempty"`
}

// AcmeDNSTransport is the transport of DNS queries.
type AcmeDNSTransport string

// Transports of DNS queries.
const (
	AcmeDNSUDPThenTCP AcmeDNSTransport = "UDPThenTCP"
	AcmeDNSTLS        AcmeDNSTransport = "TLS"
)

// AcmeDNS configures DNS lookups.
type AcmeDNS struct {
	// servers are DNS servers with their ports, such as 10.0.0.53:53, tried in this order.
	// Default: the DNS servers of the machine on which the server runs.
	//
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=261
	// +listType=atomic
	// +optional
	Servers []string `json:"servers,omitempty"`
	// transport is UDPThenTCP, or TLS (RFC 7858).
	//
	// +kubebuilder:default=UDPThenTCP
	// +kubebuilder:validation:Enum=UDPThenTCP;TLS
	Transport AcmeDNSTransport `json:"transport,omitempty"`
	// caBundle contains the roots for the servers' certificates, in PEM. Default: the roots
	// of the machine.
	//
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`
}

// AcmeNetworks restricts the addresses that the server connects to.
type AcmeNetworks struct {
	// allow are addresses and networks. If it is not empty, all others are refused.
	// Loopback and link-local addresses also require the annotation
	// acme.certplane.dev/allow-local: "true".
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Allow []string `json:"allow,omitempty"`
	// deny are addresses and networks that are always refused.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Deny []string `json:"deny,omitempty"`
}

// AcmeAttempts sets how often the server tries to validate a challenge.
type AcmeAttempts struct {
	// count is the maximum number of attempts.
	//
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Count int32 `json:"count,omitempty"`
	// interval is the time between two attempts.
	//
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="must be from 1s to 10m"
	Interval metav1.Duration `json:"interval,omitempty"`
	// timeout is the time limit of one attempt.
	//
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('60s')",message="must be from 1s to 60s"
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// AcmeOrders sets how long orders are kept.
type AcmeOrders struct {
	// pendingFor is how long a client may take to finalize an order.
	//
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	PendingFor metav1.Duration `json:"pendingFor,omitempty"`
	// processingFor is how long a finalized order waits for approval.
	//
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ProcessingFor metav1.Duration `json:"processingFor,omitempty"`
	// authorizationValidFor is how long a proof of control of a name stays valid.
	//
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	AuthorizationValidFor metav1.Duration `json:"authorizationValidFor,omitempty"`
	// chainFor is how long clients can download a certificate after it was issued.
	//
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ChainFor metav1.Duration `json:"chainFor,omitempty"`
	// reuseValidation is how long later orders of the same account can reuse a proof for
	// the same name. 0s: each order needs its own proof.
	//
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="must be at most 720h: names can change owners"
	ReuseValidation metav1.Duration `json:"reuseValidation,omitempty"`
}

// AcmeLimits are rate limits and quotas of accounts. Each server process counts new
// accounts per address on its own; limits on the orders of an account apply to all
// processes together.
type AcmeLimits struct {
	// ordersPerAccountPerHour limits new orders. Orders that replace a certificate (RFC
	// 9773) do not count.
	//
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	OrdersPerAccountPerHour int32 `json:"ordersPerAccountPerHour,omitempty"`
	// pendingOrdersPerAccount limits orders that are not finalized.
	//
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	PendingOrdersPerAccount int32 `json:"pendingOrdersPerAccount,omitempty"`
	// waitingOrdersPerAccount limits orders that wait for approval.
	//
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	WaitingOrdersPerAccount int32 `json:"waitingOrdersPerAccount,omitempty"`
	// failedValidationsPerHour limits failed challenges of an account for one name.
	//
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	FailedValidationsPerHour int32 `json:"failedValidationsPerHour,omitempty"`
	// accountsPerAddressPerHour limits new accounts from one IPv4 address or one IPv6 /64
	// network.
	//
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	AccountsPerAddressPerHour int32 `json:"accountsPerAddressPerHour,omitempty"`
	// maxAccounts is the maximum number of accounts of the endpoint.
	//
	// +kubebuilder:default=100000
	// +kubebuilder:validation:Minimum=1
	MaxAccounts int32 `json:"maxAccounts,omitempty"`
}

// AcmeRenewal sets when clients should renew.
type AcmeRenewal struct {
	// windowAt are the start and the end of the suggested renewal window, in percent of the
	// lifetime.
	//
	// +kubebuilder:default={60,80}
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=99
	// +kubebuilder:validation:XValidation:rule="self[0] < self[1]",message="the first time must be before the last"
	// +listType=atomic
	WindowAt []int32 `json:"windowAt,omitempty"`
	// retryAfter is how long clients wait before they ask for the window again.
	//
	// +kubebuilder:default="6h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	RetryAfter metav1.Duration `json:"retryAfter,omitempty"`
	// explanationURL is the URL of a page for people about the window.
	//
	// +kubebuilder:validation:MaxLength=2000
	// +optional
	ExplanationURL string `json:"explanationURL,omitempty"`
}

// AcmeEndpointStatus is the observed state of an endpoint.
type AcmeEndpointStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// directory is the directory URL for clients.
	//
	// +optional
	Directory string `json:"directory,omitempty"`
	// trust identifies the root of the server's certificate.
	//
	// +optional
	Trust *AcmeTrust `json:"trust,omitempty"`
	// accounts is the number of accounts.
	//
	// +optional
	Accounts int64 `json:"accounts,omitempty"`
	// newAccounts are the accounts of the last minute, listed only when their number is
	// close to spec.limits.maxAccounts. They are written before the accounts are created,
	// so that servers count accounts that they do not see yet.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	// +optional
	NewAccounts []AcmeNewAccount `json:"newAccounts,omitempty"`
	// roots are the roots that the signers of the profiles publish in their
	// ClusterTrustBundles.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=signerName
	// +listMapKey=fingerprint
	// +optional
	Roots []AcmePublishedRoot `json:"roots,omitempty"`
	// conditions: Ready reports whether the endpoint accepts orders, and why not.
	// ApprovalEnforced reports whether requests really wait for approval.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AcmeNewAccount is an account that is being created or was just created.
type AcmeNewAccount struct {
	// name is the name of the AcmeAccount.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// time is when the client registered.
	Time metav1.Time `json:"time"`
}

// AcmePublishedRoot is a root in the ClusterTrustBundles of a signer.
type AcmePublishedRoot struct {
	// signerName is the signer that publishes the root.
	//
	// +kubebuilder:validation:MaxLength=571
	SignerName string `json:"signerName"`
	// fingerprint is the SHA-256 digest of the root, in hexadecimal digits.
	//
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`
	// commonName is the common name of its subject.
	//
	// +kubebuilder:validation:MaxLength=256
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// published is when the endpoint first saw the root, without an interruption since
	// then.
	Published metav1.Time `json:"published"`
}

// AcmeTrust identifies the root that clients of the server must trust.
type AcmeTrust struct {
	// fingerprint is the SHA-256 digest of the root of the server's certificate,
	// as SHA256:<hexadecimal digits>.
	Fingerprint string `json:"fingerprint"`
	// bundle is the name of the ClusterTrustBundle that contains the root.
	//
	// +optional
	Bundle string `json:"bundle,omitempty"`
}

// AcmeCertificateWaits is the condition of endpoints while the next certificate of the ACME
// server cannot be made, for example because a Secret is damaged. The server uses the
// current certificate until it expires.
const AcmeCertificateWaits = "CertificateWaits"

// Annotations and labels of ACME objects and of the requests made for orders. They are
// information for people, except AcmeAllowLocalAnnotation and AcmeRenewBeforeAnnotation on
// endpoints and AcmeNamespaceLabel, which the server reads.
const (
	AcmeAllowLocalAnnotation  = "acme.certplane.dev/allow-local"
	AcmeRenewBeforeAnnotation = "acme.certplane.dev/renew-before"

	AcmeEndpointLabel = "acme.certplane.dev/endpoint"
	AcmeAccountLabel  = "acme.certplane.dev/account"
	AcmeOrderLabel    = "acme.certplane.dev/order"
	AcmeSerialLabel   = "acme.certplane.dev/serial"
	// AcmeNamespaceLabel is the namespace of the ServiceAccount. Accounts and their keys
	// have this label because they are cluster-scoped: their size counts for this
	// namespace.
	AcmeNamespaceLabel = "acme.certplane.dev/namespace"

	AcmeOrderAnnotation       = "acme.certplane.dev/order"
	AcmeExternalKeyAnnotation = "acme.certplane.dev/external-key"
	AcmeIdentifiersAnnotation = "acme.certplane.dev/identifiers"
	AcmeAddressAnnotation     = "acme.certplane.dev/address"
)
