package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AcmeEndpoint is a directory of the ACME server (RFC 8555): who may have
// accounts, for which names, and what signs. Each order becomes one
// CertificateSigningRequest or CertificateRequest of the account's
// ServiceAccount, with all that holds for such requests.
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
	// accounts says who may have an account, and as whom it acts.
	Accounts AcmeAccounts `json:"accounts"`
	// identifiers says for which names and addresses certificates can be
	// ordered. A type for which nothing is allowed is refused.
	Identifiers AcmeIdentifiers `json:"identifiers"`
	// profiles are the kinds of certificates. The first one is the default.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Profiles []AcmeProfile `json:"profiles"`
	// approval says which requests need a person.
	//
	// +kubebuilder:default={}
	Approval AcmeApproval `json:"approval,omitempty"`
	// challenges says how control of a name is proven, and where the server
	// connects to for it.
	//
	// +kubebuilder:default={}
	Challenges AcmeChallenges `json:"challenges,omitempty"`
	// orders says for how long orders and what belongs to them are kept.
	//
	// +kubebuilder:default={}
	Orders AcmeOrders `json:"orders,omitempty"`
	// limits bounds what accounts can do.
	//
	// +kubebuilder:default={}
	Limits AcmeLimits `json:"limits,omitempty"`
	// renewal says when clients are told to renew (RFC 9773).
	//
	// +kubebuilder:default={}
	Renewal AcmeRenewal `json:"renewal,omitempty"`
	// revocation says what a request to revoke a certificate does. Record: it is
	// written into the order, and no revocation list has it. Refuse: it is
	// refused.
	//
	// +kubebuilder:default=Record
	// +kubebuilder:validation:Enum=Record;Refuse
	Revocation AcmeRevocation `json:"revocation,omitempty"`
	// website is a page about the server, for people.
	//
	// +kubebuilder:validation:MaxLength=2000
	// +optional
	Website string `json:"website,omitempty"`
	// tolerate has the deviations from the standard that are accepted from
	// clients. paddedBase64: base64url with padding. shortECDSASignatures:
	// signatures without leading zero bytes. moreAlgorithms: RS384, RS512 and
	// PS256 to PS512. largeRSA: account keys of up to 8192 bits. commonNameOnly:
	// certificate requests without a subjectAltName. otherCSRVersions: certificate
	// requests that do not have the version of PKCS #10, as those of Ruby's gem acme-client.
	// The last two are needed only for signers that copy certificate requests: all others
	// accept both.
	//
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:Enum=paddedBase64;shortECDSASignatures;moreAlgorithms;largeRSA;commonNameOnly;otherCSRVersions
	// +listType=set
	// +optional
	Tolerate []AcmeTolerance `json:"tolerate,omitempty"`
}

// AcmeTolerance is a deviation from the standard that is accepted.
type AcmeTolerance string

// The deviations.
const (
	AcmeToleratePaddedBase64         AcmeTolerance = "paddedBase64"
	AcmeTolerateShortECDSASignatures AcmeTolerance = "shortECDSASignatures"
	AcmeTolerateMoreAlgorithms       AcmeTolerance = "moreAlgorithms"
	AcmeTolerateLargeRSA             AcmeTolerance = "largeRSA"
	AcmeTolerateCommonNameOnly       AcmeTolerance = "commonNameOnly"
	AcmeTolerateOtherCSRVersions     AcmeTolerance = "otherCSRVersions"
)

// AcmeRevocation says what a request to revoke a certificate does.
type AcmeRevocation string

// What a request to revoke a certificate can do.
const (
	AcmeRevocationRecord AcmeRevocation = "Record"
	AcmeRevocationRefuse AcmeRevocation = "Refuse"
)

// AcmeAdmission says who may have an account.
//
// +kubebuilder:validation:Enum=Open;ExternalKey;Approval
type AcmeAdmission string

// Who may have an account.
const (
	AcmeAdmissionOpen        AcmeAdmission = "Open"
	AcmeAdmissionExternalKey AcmeAdmission = "ExternalKey"
	AcmeAdmissionApproval    AcmeAdmission = "Approval"
)

// AcmeAccounts says who may have an account.
type AcmeAccounts struct {
	// admission says who may have an account. ExternalKey: who has the key of an
	// AcmeExternalKey. Open: everybody who reaches the server. Approval: as Open,
	// but a person has to approve an account without an external key before it
	// can order.
	//
	// +kubebuilder:default=ExternalKey
	Admission AcmeAdmission `json:"admission,omitempty"`
	// serviceAccount is whom accounts without an external key act as.
	//
	// +optional
	ServiceAccount *AcmeServiceAccount `json:"serviceAccount,omitempty"`
	// termsOfService is a URL that clients have to agree to. Accounts are asked
	// again when it changes.
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

// AcmeIdentifiers says for which names and addresses certificates can be
// ordered.
type AcmeIdentifiers struct {
	// dns says which DNS names.
	//
	// +optional
	DNS *AcmeDNSNames `json:"dns,omitempty"`
	// ip says which addresses (RFC 8738).
	//
	// +optional
	IP *AcmeAddresses `json:"ip,omitempty"`
	// maxPerOrder is how many an order may have.
	//
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxPerOrder int32 `json:"maxPerOrder,omitempty"`
	// rules are further conditions: an order for which one is false is refused.
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
	// deny are names and patterns that are refused though allow has them.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Deny []string `json:"deny,omitempty"`
	// wildcards says whether certificates for wildcards such as *.corp.example
	// can be ordered.
	//
	// +kubebuilder:default=Allow
	// +kubebuilder:validation:Enum=Allow;Deny
	Wildcards AcmeWildcards `json:"wildcards,omitempty"`
}

// AcmeWildcards says whether wildcards can be ordered.
type AcmeWildcards string

// Whether wildcards can be ordered.
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
	// deny are addresses and networks that are refused though allow has them.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Deny []string `json:"deny,omitempty"`
}

// AcmeRule is a condition of an order.
type AcmeRule struct {
	// expression is a CEL expression that is true or false. It has identifiers
	// (a list of type, value and wildcard), account (id, externalKey, namespace,
	// serviceAccount), profile and now.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
	// message is what clients are told when the expression is false.
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
	// name is what clients choose the profile by.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]{1,32}$`
	Name string `json:"name"`
	// description is what the directory says of the profile.
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
	// usages are those of the certificates. key encipherment is left out for
	// keys that are not RSA.
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
	// keyTypes are the keys that certificates may have.
	//
	// +kubebuilder:default={ECDSAP256,ECDSAP384,ECDSAP521,RSA2048,RSA3072,RSA4096,ED25519}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=ECDSAP256;ECDSAP384;ECDSAP521;RSA2048;RSA3072;RSA4096;ED25519
	// +listType=set
	// +optional
	KeyTypes []string `json:"keyTypes,omitempty"`
	// subject says which subjects certificate requests may have. Any: all; a
	// common name that was ordered is in the certificate, and nothing else of the
	// subject. EmptyOrCommonName: none, or a common name alone; other requests are
	// refused. It is always EmptyOrCommonName for signers that may copy requests:
	// those of kubernetes.io, issuers of types vault and venafi, and signers and issuers
	// of other programs. Default: Any.
	//
	// +kubebuilder:validation:Enum=Any;EmptyOrCommonName
	// +optional
	Subject AcmeSubject `json:"subject,omitempty"`
	// freshKey refuses keys that a certificate of this endpoint already has.
	//
	// +optional
	FreshKey bool `json:"freshKey,omitempty"`
	// chains are the roots to which clients are offered chains, the preferred one
	// first: the first chain is the default, the others are linked from it (RFC 8555
	// section 7.4.2). Chains to other roots are not offered. If there is no chain to
	// any of these roots, and by default, clients are offered that of the signer and
	// the others that are found.
	//
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=root
	// +optional
	Chains []AcmeChain `json:"chains,omitempty"`
	// overlap is how long a root has to have been in the ClusterTrustBundles of the
	// signer until chains to it come before those to roots that are there for longer.
	// While none is there for as long, the one that is there for longest comes first.
	// The root of another signer, which has cross-signed a CA of this one, need not be
	// there. By default none has to.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	// +optional
	Overlap *metav1.Duration `json:"overlap,omitempty"`
}

// AcmeChain is a chain that clients are offered.
type AcmeChain struct {
	// root is the common name of the root, as the CA below it names its issuer.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Root string `json:"root"`
}

// AcmeSubject says which subjects certificate requests may have.
type AcmeSubject string

// The subjects that certificate requests may have.
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
	// default is for orders that name no end.
	//
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Default metav1.Duration `json:"default,omitempty"`
	// maximum is the longest one.
	//
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Maximum metav1.Duration `json:"maximum,omitempty"`
	// fromOrder says whether clients may ask for an earlier end.
	//
	// +kubebuilder:default=true
	FromOrder *bool `json:"fromOrder,omitempty"`
}

// AcmeApprovalMode says which requests need a person.
type AcmeApprovalMode string

// Which requests need a person.
const (
	AcmeApprovalByRight AcmeApprovalMode = "ByRight"
	AcmeApprovalManual  AcmeApprovalMode = "Manual"
)

// AcmeApproval says which requests need a person.
type AcmeApproval struct {
	// mode is ByRight: requests of ServiceAccounts that have the verb autoapprove
	// on the endpoint need nobody; or Manual: all requests wait for certificate
	// policies or people.
	//
	// +kubebuilder:default=ByRight
	// +kubebuilder:validation:Enum=ByRight;Manual
	Mode AcmeApprovalMode `json:"mode,omitempty"`
	// carryOver is how long after the approval of an order by a person a later
	// order of the same account for the same names, or fewer, needs none. 0s: each
	// order needs its own.
	//
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	CarryOver metav1.Duration `json:"carryOver,omitempty"`
	// finalizeWait is how long the answer to a finalization waits for the
	// certificate.
	//
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('20s')",message="must be at most 20s: clients wait no longer for an answer"
	FinalizeWait metav1.Duration `json:"finalizeWait,omitempty"`
	// hideReasons keeps the reasons of refusals from clients.
	//
	// +optional
	HideReasons bool `json:"hideReasons,omitempty"`
}

// AcmeChallenges says how control of a name is proven.
type AcmeChallenges struct {
	// types are the offered challenges.
	//
	// +kubebuilder:default={http-01,dns-01,tls-alpn-01}
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=http-01;dns-01;tls-alpn-01
	// +listType=set
	// +optional
	Types []string `json:"types"`
	// http01 is about http-01.
	//
	// +kubebuilder:default={}
	HTTP01 AcmeHTTP01 `json:"http01,omitempty"`
	// tlsAlpn01 is about tls-alpn-01 (RFC 8737).
	//
	// +kubebuilder:default={}
	TLSALPN01 AcmeTLSALPN01 `json:"tlsAlpn01,omitempty"`
	// dns is how names are looked up.
	//
	// +kubebuilder:default={}
	DNS AcmeDNS `json:"dns,omitempty"`
	// networks are where the server may connect to. Private networks are
	// allowed; loopback, link-local and metadata addresses, and those of the API
	// are not.
	//
	// +kubebuilder:default={}
	Networks AcmeNetworks `json:"networks,omitempty"`
	// attempts says how often a challenge is tried.
	//
	// +kubebuilder:default={}
	Attempts AcmeAttempts `json:"attempts,omitempty"`
}

// AcmeHTTP01 is about http-01 challenges.
type AcmeHTTP01 struct {
	// ports are tried in this order. The standard has 80 alone.
	//
	// +kubebuilder:default={80}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=set
	Ports []int32 `json:"ports,omitempty"`
	// redirectPorts are the ports to which an answer may redirect.
	//
	// +kubebuilder:default={80,443}
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=set
	// +optional
	RedirectPorts []int32 `json:"redirectPorts,omitempty"`
	// maxRedirects is how many redirects are followed.
	//
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	MaxRedirects *int32 `json:"maxRedirects,omitempty"`
}

// AcmeTLSALPN01 is about tls-alpn-01 challenges.
type AcmeTLSALPN01 struct {
	// ports are tried in this order. The standard has 443 alone.
	//
	// +kubebuilder:default={443}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=set
	Ports []int32 `json:"ports,omitempty"`
}

// AcmeDNSTransport is how DNS servers are asked.
type AcmeDNSTransport string

// How DNS servers are asked.
const (
	AcmeDNSUDPThenTCP AcmeDNSTransport = "UDPThenTCP"
	AcmeDNSTLS        AcmeDNSTransport = "TLS"
)

// AcmeDNS is how names are looked up.
type AcmeDNS struct {
	// servers are DNS servers with their ports, such as 10.0.0.53:53, asked in
	// this order. Default: those of the machine on which the server runs.
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
	// caBundle has the roots of the servers' certificates, in PEM. Default: those
	// of the machine.
	//
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`
}

// AcmeNetworks says where the server may connect to.
type AcmeNetworks struct {
	// allow are addresses and networks. If there are any, others are refused.
	// Loopback and link-local ones need the annotation
	// acme.certplane.dev/allow-local: "true".
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Allow []string `json:"allow,omitempty"`
	// deny are addresses and networks that are refused in any case.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	// +optional
	Deny []string `json:"deny,omitempty"`
}

// AcmeAttempts says how often a challenge is tried.
type AcmeAttempts struct {
	// count is how many attempts there are.
	//
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Count int32 `json:"count,omitempty"`
	// interval is the time from an attempt to the next.
	//
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="must be from 1s to 10m"
	Interval metav1.Duration `json:"interval,omitempty"`
	// timeout is the time for one attempt.
	//
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('60s')",message="must be from 1s to 60s"
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// AcmeOrders says for how long orders are kept.
type AcmeOrders struct {
	// pendingFor is how long a client has until it finalizes an order.
	//
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	PendingFor metav1.Duration `json:"pendingFor,omitempty"`
	// processingFor is how long a finalized order waits for its approval.
	//
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ProcessingFor metav1.Duration `json:"processingFor,omitempty"`
	// authorizationValidFor is how long the proof of control of a name counts.
	//
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	AuthorizationValidFor metav1.Duration `json:"authorizationValidFor,omitempty"`
	// chainFor is how long a certificate can be fetched after it was issued.
	//
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ChainFor metav1.Duration `json:"chainFor,omitempty"`
	// reuseValidation is for how long a later order of the same account needs no
	// new proof for the same name. 0s: each order needs its own.
	//
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="must be at most 720h: names move"
	ReuseValidation metav1.Duration `json:"reuseValidation,omitempty"`
}

// AcmeLimits bounds what accounts can do. What is about accounts of one address is
// counted by each process of the server alone; limits of the orders of an account hold at
// all of them together.
type AcmeLimits struct {
	// ordersPerAccountPerHour counts new orders, but for those that replace a
	// certificate (RFC 9773).
	//
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	OrdersPerAccountPerHour int32 `json:"ordersPerAccountPerHour,omitempty"`
	// pendingOrdersPerAccount counts orders that are not finalized.
	//
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	PendingOrdersPerAccount int32 `json:"pendingOrdersPerAccount,omitempty"`
	// waitingOrdersPerAccount counts orders that wait for their approval.
	//
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	WaitingOrdersPerAccount int32 `json:"waitingOrdersPerAccount,omitempty"`
	// failedValidationsPerHour counts failed challenges of an account for one
	// name.
	//
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	FailedValidationsPerHour int32 `json:"failedValidationsPerHour,omitempty"`
	// accountsPerAddressPerHour counts new accounts from one address; of IPv6, one
	// network of 64 bits.
	//
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	AccountsPerAddressPerHour int32 `json:"accountsPerAddressPerHour,omitempty"`
	// maxAccounts is how many accounts the endpoint has.
	//
	// +kubebuilder:default=100000
	// +kubebuilder:validation:Minimum=1
	MaxAccounts int32 `json:"maxAccounts,omitempty"`
}

// AcmeRenewal says when clients are told to renew.
type AcmeRenewal struct {
	// windowAt are the first and the last time for a renewal, in percent of the
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
	// retryAfter is when clients ask again.
	//
	// +kubebuilder:default="6h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	RetryAfter metav1.Duration `json:"retryAfter,omitempty"`
	// explanationURL is a page about the window, for people.
	//
	// +kubebuilder:validation:MaxLength=2000
	// +optional
	ExplanationURL string `json:"explanationURL,omitempty"`
}

// AcmeEndpointStatus is the observed state of an endpoint.
type AcmeEndpointStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// directory is the URL that clients are given.
	//
	// +optional
	Directory string `json:"directory,omitempty"`
	// trust says which root the server's certificate has.
	//
	// +optional
	Trust *AcmeTrust `json:"trust,omitempty"`
	// accounts is the number of accounts.
	//
	// +optional
	Accounts int64 `json:"accounts,omitempty"`
	// newAccounts are accounts of the last minute, while there are nearly as many as
	// spec.limits.maxAccounts. They count from before they are made, also at servers that do
	// not see them yet.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	// +optional
	NewAccounts []AcmeNewAccount `json:"newAccounts,omitempty"`
	// roots are those that the signers of the profiles publish in their
	// ClusterTrustBundles.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=signerName
	// +listMapKey=fingerprint
	// +optional
	Roots []AcmePublishedRoot `json:"roots,omitempty"`
	// conditions: Ready says whether orders are taken, and why not;
	// ApprovalEnforced, whether requests wait for an approval that means
	// something.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AcmeNewAccount is an account that is being made, or was made a moment ago.
type AcmeNewAccount struct {
	// name is that of the AcmeAccount.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// time is when the client has registered.
	Time metav1.Time `json:"time"`
}

// AcmePublishedRoot is a root in the ClusterTrustBundles of a signer.
type AcmePublishedRoot struct {
	// signerName is the signer that publishes it.
	//
	// +kubebuilder:validation:MaxLength=571
	SignerName string `json:"signerName"`
	// fingerprint is the SHA-256 digest of the root, in hexadecimal digits.
	//
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`
	// commonName is that of its subject.
	//
	// +kubebuilder:validation:MaxLength=256
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// published is since when it has been there without a break, as far as this
	// endpoint knows.
	Published metav1.Time `json:"published"`
}

// AcmeTrust is how clients come to trust the server.
type AcmeTrust struct {
	// fingerprint is the SHA-256 digest of the root of the server's certificate,
	// as SHA256:<hexadecimal digits>.
	Fingerprint string `json:"fingerprint"`
	// bundle is the name of the ClusterTrustBundle with the root.
	//
	// +optional
	Bundle string `json:"bundle,omitempty"`
}

// AcmeCertificateWaits is the condition of endpoints while the next certificate of the ACME
// server waits for something, such as a damaged Secret to be restored. Clients are answered
// with the present one until it ends.
const AcmeCertificateWaits = "CertificateWaits"

// Annotations and labels of ACME objects and of the requests made for orders.
// They are for people: nothing is decided by them, but for
// AcmeAllowLocalAnnotation and AcmeRenewBeforeAnnotation on endpoints, and for
// AcmeNamespaceLabel.
const (
	AcmeAllowLocalAnnotation  = "acme.certplane.dev/allow-local"
	AcmeRenewBeforeAnnotation = "acme.certplane.dev/renew-before"

	AcmeEndpointLabel = "acme.certplane.dev/endpoint"
	AcmeAccountLabel  = "acme.certplane.dev/account"
	AcmeOrderLabel    = "acme.certplane.dev/order"
	AcmeSerialLabel   = "acme.certplane.dev/serial"
	// AcmeNamespaceLabel is the namespace of the ServiceAccount on accounts and their
	// keys, which have no namespace of their own: their size counts for it.
	AcmeNamespaceLabel = "acme.certplane.dev/namespace"

	AcmeOrderAnnotation       = "acme.certplane.dev/order"
	AcmeExternalKeyAnnotation = "acme.certplane.dev/external-key"
	AcmeIdentifiersAnnotation = "acme.certplane.dev/identifiers"
	AcmeAddressAnnotation     = "acme.certplane.dev/address"
)
