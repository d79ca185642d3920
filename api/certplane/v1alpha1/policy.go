package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertificatePolicy says which requests for certificates are approved, which are
// refused, and which need the approval of people. It is about requests of all
// kinds, and is asked when a request is created, approved and signed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=certificatepolicies,scope=Cluster,shortName=cpol,categories=certplane
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.effect`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.spec.approval.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Signers",type=string,JSONPath=`.spec.match.signers`,priority=1
// +kubebuilder:printcolumn:name="Replaces",type=string,JSONPath=`.spec.replaces`,priority=1
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CertificatePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CertificatePolicySpec `json:"spec"`
	// +optional
	Status CertificatePolicyStatus `json:"status,omitempty"`
}

// CertificatePolicyList is a list of CertificatePolicies.
//
// +kubebuilder:object:root=true
type CertificatePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CertificatePolicy `json:"items"`
}

// CertificatePolicySpec is the specification of a policy.
type CertificatePolicySpec struct {
	// description is for people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`
	// effect is what the policy does. Allow: a request that fits gets what
	// approval says. Limit: a guardrail; each request that matches must fit,
	// whoever allowed it. DenyRest: a request that matches and that no Allow
	// policy is about is denied.
	Effect PolicyEffect `json:"effect"`
	// mode says what follows from the policy's decisions. Enforce: they are
	// enforced. Warn: the requester gets a warning. Shadow: they are counted in
	// status.shadow. Off: the policy is only compiled.
	//
	// +kubebuilder:default=Enforce
	// +optional
	Mode PolicyMode `json:"mode,omitempty"`
	// replaces is the name of a policy in whose place this one is evaluated.
	// Only with the modes Shadow and Warn: what is reported then is which
	// decisions would change.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Replaces string `json:"replaces,omitempty"`
	// match says which requests the policy is about.
	Match PolicyMatch `json:"match"`
	// certificate has the conditions on the certificate that the request asks
	// for. What it does not mention, an Allow policy does not permit, and a
	// Limit does not restrict. DenyRest has none.
	//
	// +optional
	Certificate *CertificateConditions `json:"certificate,omitempty"`
	// rules are further conditions.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Rules []PolicyRule `json:"rules,omitempty"`
	// quotas limit how many requests the policy lets through. DenyRest has none.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Quotas []PolicyQuota `json:"quotas,omitempty"`
	// approval says what a request gets that fits. Default of an Allow policy:
	// Automatic. A Limit can require people; DenyRest has none.
	//
	// +optional
	Approval *PolicyApproval `json:"approval,omitempty"`
	// message is added to refusals: whom to ask, where to read.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// disclosure says what the requester is told of a refusal. Full: also what
	// would be permitted. Reason: only the field and the reason.
	//
	// +kubebuilder:default=Full
	// +optional
	Disclosure PolicyDisclosure `json:"disclosure,omitempty"`
	// protection has changes of the policy wait for people: what one person writes
	// is a proposal, which takes effect when enough people have written the same.
	// Default: whoever may write the policy changes it alone.
	//
	// +optional
	Protection *PolicyProtection `json:"protection,omitempty"`
}

// EffectiveMode returns the mode, which is Enforce by default.
func (s *CertificatePolicySpec) EffectiveMode() PolicyMode { return cmp.Or(s.Mode, PolicyEnforce) }

// PolicyProtection says which people have to agree before this policy changes,
// an exception from it is in force, or another Allow policy for one of its signers
// is enforced or changed. It holds in every mode. The policy can be deleted only in
// the mode Off.
type PolicyProtection struct {
	// people say how many people, and of which groups, have to write the same
	// specification.
	People ProtectingPeople `json:"people"`
}

// ProtectingPeople says how many people, and of which groups, have to write the
// same specification. Nobody counts twice.
type ProtectingPeople struct {
	// count is the number of distinct people altogether.
	//
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=9
	Count int32 `json:"count"`
	// from are requirements by group or name. A person counts for one of them
	// only. Default: anybody who may write the policy.
	//
	// +kubebuilder:validation:MaxItems=9
	// +listType=atomic
	// +optional
	From []PeopleFrom `json:"from,omitempty"`
	// validFor is how long a proposal counts. Default: 72h.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ValidFor *metav1.Duration `json:"validFor,omitempty"`
	// serviceAccounts lets service accounts count as people, each as one.
	//
	// +optional
	ServiceAccounts bool `json:"serviceAccounts,omitempty"`
	// distinctBy is what tells people apart: Username, or Extra: and the key of
	// an extra value, for people with several logins.
	//
	// +kubebuilder:default=Username
	// +kubebuilder:validation:Pattern=`^(Username|Extra:[^ ]+)$`
	// +kubebuilder:validation:MaxLength=256
	// +optional
	DistinctBy string `json:"distinctBy,omitempty"`
}

// Requirement returns the people as a policy requires them for a request.
func (p ProtectingPeople) Requirement() PeopleRequirement {
	return PeopleRequirement{Count: p.Count, From: p.From, ValidFor: p.ValidFor, ServiceAccounts: p.ServiceAccounts, DistinctBy: p.DistinctBy}
}

// AnnotationProposals has the changes of a policy or an exception that people have
// proposed, as a list of sealed records in JSON. Only the server writes it.
const AnnotationProposals = GroupName + "/proposals"

// AnnotationAgreed has who has written the present specification of a policy or an
// exception, if that needed several people, in the same form. Only the server writes
// it.
const AnnotationAgreed = GroupName + "/agreed"

// PolicyEffect is what a policy does.
//
// +kubebuilder:validation:Enum=Allow;Limit;DenyRest
type PolicyEffect string

// The effects of policies.
const (
	PolicyAllow    PolicyEffect = "Allow"
	PolicyLimit    PolicyEffect = "Limit"
	PolicyDenyRest PolicyEffect = "DenyRest"
)

// PolicyMode says what follows from a policy's decisions.
//
// +kubebuilder:validation:Enum=Enforce;Warn;Shadow;Off
type PolicyMode string

// The modes of policies.
const (
	PolicyEnforce PolicyMode = "Enforce"
	PolicyWarn    PolicyMode = "Warn"
	PolicyShadow  PolicyMode = "Shadow"
	PolicyOff     PolicyMode = "Off"
)

// PolicyDisclosure says what the requester is told of a refusal.
//
// +kubebuilder:validation:Enum=Full;Reason
type PolicyDisclosure string

// What requesters are told.
const (
	DiscloseFull   PolicyDisclosure = "Full"
	DiscloseReason PolicyDisclosure = "Reason"
)

// PolicyMatch says which requests a policy is about: those for which all its
// fields hold. The values of a list are alternatives.
type PolicyMatch struct {
	// kinds are the kinds of requests. Default: all.
	//
	// +kubebuilder:validation:items:Enum=CertificateSigningRequest;PodCertificateRequest;CertificateRequest
	// +listType=set
	// +optional
	Kinds []RequestKind `json:"kinds,omitempty"`
	// origins say how the request came to be. Certificate: a controller made it
	// for a Certificate. ACME: an ACME server made it. Direct: anything else,
	// whatever its labels say. Default: all.
	//
	// +listType=set
	// +optional
	Origins []RequestOrigin `json:"origins,omitempty"`
	// signers are patterns of signer names. A CertificateRequest has the name
	// of its issuer: issuers.cert-manager.io/NAMESPACE.NAME or
	// clusterissuers.cert-manager.io/NAME, for other groups
	// PLURAL.GROUP/NAMESPACE.NAME. A * in a name is one or more characters
	// other than /; a lone * is every signer.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=571
	// +listType=set
	Signers []string `json:"signers"`
	// namespaces are those of the request. A CertificateSigningRequest is in the
	// namespace of the service account that requests it; with another
	// requester, it is in none and does not match.
	//
	// +optional
	Namespaces *NamespaceMatch `json:"namespaces,omitempty"`
	// requesters are the users who make the request.
	//
	// +optional
	Requesters *RequesterMatch `json:"requesters,omitempty"`
	// access lists what the requester must be allowed to do by the API's
	// authorization, in the request's namespace if it has one.
	//
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	// +optional
	Access []AccessMatch `json:"access,omitempty"`
	// conditions are expressions that must all be true.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Conditions []MatchCondition `json:"conditions,omitempty"`
}

// RequestOrigin says how a request came to be.
//
// +kubebuilder:validation:Enum=Direct;Certificate;ACME
type RequestOrigin string

// The origins of requests.
const (
	OriginDirect      RequestOrigin = "Direct"
	OriginCertificate RequestOrigin = "Certificate"
	OriginACME        RequestOrigin = "ACME"
)

// NamespaceMatch selects namespaces. All fields must hold.
type NamespaceMatch struct {
	// names are patterns in which a * is any run of characters.
	//
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
	// excluded are patterns of namespaces that do not match.
	//
	// +listType=set
	// +optional
	Excluded []string `json:"excluded,omitempty"`
	// selector selects by the labels of the Namespace.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// RequesterMatch selects users: those who are in any of the three lists, or
// everybody if these are empty, but nobody in excluded.
type RequesterMatch struct {
	RequesterLists `json:",inline"`
	// excluded are those who do not match.
	//
	// +optional
	Excluded *RequesterLists `json:"excluded,omitempty"`
}

// RequesterLists are lists of users.
type RequesterLists struct {
	// users are names, exact or with one * at the start or the end.
	//
	// +listType=set
	// +optional
	Users []string `json:"users,omitempty"`
	// groups are names, exact or with one * at the start or the end.
	//
	// +listType=set
	// +optional
	Groups []string `json:"groups,omitempty"`
	// serviceAccounts are NAMESPACE/NAME. A * in either part is any run of
	// characters.
	//
	// +listType=set
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
}

// AccessMatch is something that the requester must be allowed to do. Without a
// resource it is about this policy: the verb use on certificatepolicies with
// this policy's name binds the policy by RBAC.
type AccessMatch struct {
	// verb is the verb, such as use.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Verb string `json:"verb"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Resource string `json:"resource,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
}

// MatchCondition is an expression that must be true for a policy to apply. If
// it fails, the policy applies if it is a Limit or DenyRest.
type MatchCondition struct {
	// name is unique in the policy.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// expression yields a bool.
	Expression CEL `json:"expression"`
}

// CertificateConditions are conditions on the certificate that the signer would
// issue for the request. They are checked again on the finished certificate,
// before it is signed.
type CertificateConditions struct {
	// +optional
	Subject *SubjectConditions `json:"subject,omitempty"`
	// +optional
	Names *NameConditions `json:"names,omitempty"`
	// +optional
	Keys *KeyConditions `json:"keys,omitempty"`
	// usages must be given in an Allow policy.
	//
	// +optional
	Usages *UsageConditions `json:"usages,omitempty"`
	// +optional
	Lifetime *LifetimeConditions `json:"lifetime,omitempty"`
	// authority has the conditions on certificates of CAs.
	//
	// +optional
	Authority *AuthorityConditions `json:"authority,omitempty"`
	// +optional
	Extensions *ExtensionConditions `json:"extensions,omitempty"`
}

// Text has the conditions on a text. If patterns or matches are given, one of
// them must match. If expression is given, the text must be in the list that it
// yields. Without any of them every text is permitted.
type Text struct {
	// patterns are texts in which a * is any run of characters. {namespace},
	// {serviceAccount}, {user}, {node}, {pod}, {service}, {namespaceLabel:KEY},
	// {podLabel:KEY} and {acmeAccount} stand for values of the request, which are
	// never patterns themselves.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	// +optional
	Patterns []string `json:"patterns,omitempty"`
	// matches are regular expressions (RE2) for the whole text.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Matches []string `json:"matches,omitempty"`
	// expression yields the permitted texts.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// required: the certificate must have one.
	//
	// +optional
	Required bool `json:"required,omitempty"`
}

// SubjectConditions are conditions on the subject. An attribute without
// conditions is refused by an Allow policy, and not restricted by a Limit.
type SubjectConditions struct {
	// empty: the subject must be empty.
	//
	// +optional
	Empty bool `json:"empty,omitempty"`
	// +optional
	CommonName *CommonName `json:"commonName,omitempty"`
	// +optional
	SerialNumber *Text `json:"serialNumber,omitempty"`
	// +optional
	Organizations *Texts `json:"organizations,omitempty"`
	// +optional
	OrganizationalUnits *Texts `json:"organizationalUnits,omitempty"`
	// +optional
	Countries *Texts `json:"countries,omitempty"`
	// +optional
	Localities *Texts `json:"localities,omitempty"`
	// +optional
	Provinces *Texts `json:"provinces,omitempty"`
	// +optional
	StreetAddresses *Texts `json:"streetAddresses,omitempty"`
	// +optional
	PostalCodes *Texts `json:"postalCodes,omitempty"`
	// other are further attributes, by OID.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=oid
	// +optional
	Other []OIDTexts `json:"other,omitempty"`
}

// CommonName has the conditions on the common name, of which there may be one.
type CommonName struct {
	Text `json:",inline"`
	// inNames: the common name must be one of the DNS names or IP addresses.
	// Some clients treat a common name as a DNS name.
	//
	// +optional
	InNames bool `json:"inNames,omitempty"`
}

// Texts has the conditions on the values of an attribute, each of which must
// be permitted.
type Texts struct {
	Text `json:",inline"`
	// exactly: the values must be these, in any order.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Exactly []string `json:"exactly,omitempty"`
	// max is the largest number of values.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// OIDTexts has the conditions on values with an object identifier.
type OIDTexts struct {
	// oid is in dotted form, such as 1.3.6.1.4.1.311.20.2.3.
	//
	// +kubebuilder:validation:MaxLength=128
	OID string `json:"oid"`
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	// +optional
	Patterns []string `json:"patterns,omitempty"`
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Matches []string `json:"matches,omitempty"`
	// +optional
	Required bool `json:"required,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// NameConditions are conditions on the subject alternative names. A kind of name
// without conditions is refused by an Allow policy, and not restricted by a
// Limit.
type NameConditions struct {
	// required: there must be a name.
	//
	// +optional
	Required bool `json:"required,omitempty"`
	// max is the largest number of names of all kinds.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
	// +optional
	DNS *DNSConditions `json:"dns,omitempty"`
	// +optional
	IP *IPConditions `json:"ip,omitempty"`
	// +optional
	URI *URIConditions `json:"uri,omitempty"`
	// +optional
	Email *EmailConditions `json:"email,omitempty"`
	// other are names of the type otherName, by OID.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=oid
	// +optional
	Other []OIDTexts `json:"other,omitempty"`
}

// DNSConditions are conditions on DNS names.
type DNSConditions struct {
	// zones are domains: the domain itself and all names below it are permitted.
	// Templates as in patterns.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`
	// patterns are compared label by label. A * in a label is any run of
	// characters of this label, a label * is any one label, a first label ** is
	// one or more labels. Templates as in subject.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Patterns []string `json:"patterns,omitempty"`
	// matches are regular expressions (RE2) for the whole name, in lower case.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Matches []string `json:"matches,omitempty"`
	// expression yields the permitted names.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// excluded names are refused.
	//
	// +optional
	Excluded *ExcludedDNS `json:"excluded,omitempty"`
	// wildcards permits *.NAME if the zone NAME is permitted.
	//
	// +optional
	Wildcards bool `json:"wildcards,omitempty"`
	// +optional
	Required bool `json:"required,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// ExcludedDNS are DNS names that are refused.
type ExcludedDNS struct {
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Patterns []string `json:"patterns,omitempty"`
}

// IPConditions are conditions on IP addresses.
type IPConditions struct {
	// cidrs are networks, such as 10.0.0.0/8.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	CIDRs []string `json:"cidrs,omitempty"`
	// expression yields the permitted addresses.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// excluded addresses are refused.
	//
	// +optional
	Excluded *ExcludedIP `json:"excluded,omitempty"`
	// +optional
	Required bool `json:"required,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// ExcludedIP are IP addresses that are refused.
type ExcludedIP struct {
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	CIDRs []string `json:"cidrs,omitempty"`
}

// URIConditions are conditions on URIs.
type URIConditions struct {
	// patterns: scheme and host are literal. In the path, a * is one or more
	// characters other than /, a final /** is one or more segments. Templates as
	// in subject.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	// +optional
	Patterns []string `json:"patterns,omitempty"`
	// matches are regular expressions (RE2) for the whole URI.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Matches []string `json:"matches,omitempty"`
	// expression yields the permitted URIs.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// +optional
	Required bool `json:"required,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// EmailConditions are conditions on e-mail addresses.
type EmailConditions struct {
	// domains are the permitted domains, each exactly. Templates as in subject.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Domains []string `json:"domains,omitempty"`
	// patterns are addresses in which a * is any run of characters without @.
	// Templates as in subject.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	// +optional
	Patterns []string `json:"patterns,omitempty"`
	// matches are regular expressions (RE2) for the whole address.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Matches []string `json:"matches,omitempty"`
	// expression yields the permitted addresses.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// +optional
	Required bool `json:"required,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// KeyConditions are conditions on the public key. An RSA key is permitted by
// types or by rsa. Without both, keys of all types are permitted.
type KeyConditions struct {
	// types are the permitted types of keys.
	//
	// +listType=set
	// +optional
	Types []KeyType `json:"types,omitempty"`
	// rsa permits RSA keys by their size.
	//
	// +optional
	RSA *RSAConditions `json:"rsa,omitempty"`
	// reuse says whether the key may be that of an earlier request. Refuse: the key
	// must not be in an earlier request of any kind, of whomever. Require: the key
	// must be that of the same owner's last request that was not denied and has not
	// failed, if there is one; not for PodCertificateRequests. The owner is the
	// Certificate of a request; of other requests, the requester together with the
	// signer, the subject and the names. Only requests that are stored are known:
	// those that were deleted, as finished requests are after some time, do not
	// count. Default: Allow.
	//
	// +optional
	Reuse KeyReuse `json:"reuse,omitempty"`
}

// KeyReuse says whether the key of a request may be that of an earlier one.
//
// +kubebuilder:validation:Enum=Allow;Refuse;Require
type KeyReuse string

// Whether keys may be used again.
const (
	KeyReuseAllow   KeyReuse = "Allow"
	KeyReuseRefuse  KeyReuse = "Refuse"
	KeyReuseRequire KeyReuse = "Require"
)

// RSAConditions are limits for the size of RSA keys, in bits, inclusive.
type RSAConditions struct {
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=16384
	// +optional
	MinBits *int32 `json:"minBits,omitempty"`
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=16384
	// +optional
	MaxBits *int32 `json:"maxBits,omitempty"`
}

// UsageConditions are conditions on the usages, by their names in
// CertificateSigningRequests, or extended usages by OID.
type UsageConditions struct {
	// allowed are the usages that the certificate may have. Default in a Limit:
	// all.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Allowed []string `json:"allowed,omitempty"`
	// required are usages that the certificate must have.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Required []string `json:"required,omitempty"`
}

// LifetimeConditions are limits for the lifetime, inclusive.
type LifetimeConditions struct {
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Min *metav1.Duration `json:"min,omitempty"`
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Max *metav1.Duration `json:"max,omitempty"`
	// default is the lifetime of certificates for requests that name none, from
	// signers of this server.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Default *metav1.Duration `json:"default,omitempty"`
	// exceeding says what becomes of a request for more than max. Refuse: it is
	// refused. Shorten: the certificate gets max, where the signer is of this
	// server; elsewhere it is refused.
	//
	// +kubebuilder:default=Refuse
	// +optional
	Exceeding LifetimeExceeding `json:"exceeding,omitempty"`
}

// LifetimeExceeding says what becomes of a request for more than the maximum.
//
// +kubebuilder:validation:Enum=Refuse;Shorten
type LifetimeExceeding string

// What becomes of requests for more.
const (
	LifetimeRefuse  LifetimeExceeding = "Refuse"
	LifetimeShorten LifetimeExceeding = "Shorten"
)

// AuthorityConditions are conditions on certificates of CAs.
type AuthorityConditions struct {
	// allowed permits certificates of CAs.
	//
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// maxPathLength is the largest path length. A request without one asks for
	// an unlimited path.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxPathLength *int32 `json:"maxPathLength,omitempty"`
	// nameConstraints says whether the certificate must have name constraints.
	//
	// +kubebuilder:default=Optional
	// +optional
	NameConstraints NameConstraintsDemand `json:"nameConstraints,omitempty"`
	// permitted: the name constraints must lie within these. A kind of name that
	// is not given must not be permitted by the certificate.
	//
	// +optional
	Permitted *PermittedNames `json:"permitted,omitempty"`
}

// NameConstraintsDemand says whether name constraints are needed.
//
// +kubebuilder:validation:Enum=Required;Optional
type NameConstraintsDemand string

// Whether name constraints are needed.
const (
	NameConstraintsRequired NameConstraintsDemand = "Required"
	NameConstraintsOptional NameConstraintsDemand = "Optional"
)

// PermittedNames are the names for which a CA may issue.
type PermittedNames struct {
	// +listType=set
	// +optional
	DNS []string `json:"dns,omitempty"`
	// +listType=set
	// +optional
	IP []string `json:"ip,omitempty"`
	// +listType=set
	// +optional
	URI []string `json:"uri,omitempty"`
	// +listType=set
	// +optional
	Email []string `json:"email,omitempty"`
}

// ExtensionConditions are conditions on requested extensions other than names,
// usages and constraints.
type ExtensionConditions struct {
	// allowed are the OIDs of extensions that may be requested. A signer need not
	// copy them.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Allowed []string `json:"allowed,omitempty"`
}

// PolicyRule is a condition on requests.
type PolicyRule struct {
	// name is unique in the policy. Tests, exceptions and metrics refer to the
	// rule by it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// kinds are the kinds of requests that the rule is about. Default: all.
	//
	// +kubebuilder:validation:items:Enum=CertificateSigningRequest;PodCertificateRequest;CertificateRequest
	// +listType=set
	// +optional
	Kinds []RequestKind `json:"kinds,omitempty"`
	// expression yields true for a request that fits.
	Expression CEL `json:"expression"`
	// message tells the requester what is not permitted, and why.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// messageExpression yields a message of one line. It takes precedence over
	// message.
	//
	// +optional
	MessageExpression CEL `json:"messageExpression,omitempty"`
	// reason is the reason of the refusal, in CamelCase. Default: RuleViolated.
	//
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +optional
	Reason string `json:"reason,omitempty"`
	// field is the field of the request that the rule is about, such as dnsNames.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Field string `json:"field,omitempty"`
}

// PolicyApproval says what a request gets that fits.
type PolicyApproval struct {
	// mode says who approves the request. Automatic: certplane. People: the
	// people in people, each by an ordinary approval. Leave: whoever may approve
	// it.
	//
	// +kubebuilder:default=Automatic
	// +optional
	Mode PolicyApprovalMode `json:"mode,omitempty"`
	// people says who has to agree, with the mode People.
	//
	// +optional
	People *PeopleRequirement `json:"people,omitempty"`
	// renewals says who approves a request that renews a certificate, with the mode
	// People. People: the people in people. Automatic: nobody has to. A request renews
	// an earlier one that is still stored if the same owner asks for the same again, at
	// most with another key; if people have approved the earlier one, as many and of
	// the groups that people says now; and if its certificate is valid now and signed by
	// the signer's CA: a root in the ClusterTrustBundles of the signer, or the CA of an
	// Issuer or ClusterIssuer. If that CA is not known, people have to approve. The new
	// one is not valid for longer than that one was. A certificate that was renewed in
	// this way does not count as an earlier one, so people have to approve again at the
	// latest when the second lifetime is over. CA certificates are never renewed
	// without people. Default: People.
	//
	// +optional
	Renewals RenewalApproval `json:"renewals,omitempty"`
	// issueOnCreate has a request that fits approved, and signed if the signer's CA is
	// in "certplane serve", within the call that creates it: the answer has the
	// certificate, and one write stores the request, its approval and its certificate.
	// With false, all is done after the request is stored. It is only for the mode
	// Automatic. In clusters it has no effect. Default: true; false for the signers
	// under kubernetes.io, whose clients may expect three steps.
	//
	// +optional
	IssueOnCreate *bool `json:"issueOnCreate,omitempty"`
}

// RenewalApproval says who approves renewals.
//
// +kubebuilder:validation:Enum=Automatic;People
type RenewalApproval string

// Who approves renewals.
const (
	RenewAutomatic RenewalApproval = "Automatic"
	RenewPeople    RenewalApproval = "People"
)

// PolicyApprovalMode says who approves.
//
// +kubebuilder:validation:Enum=Automatic;People;Leave
type PolicyApprovalMode string

// Who approves.
const (
	ApproveAutomatic PolicyApprovalMode = "Automatic"
	ApprovePeople    PolicyApprovalMode = "People"
	ApproveLeave     PolicyApprovalMode = "Leave"
)

// PeopleRequirement says how many people, and of which groups, have to approve a
// request. Nobody counts twice, and nobody approves their own request.
type PeopleRequirement struct {
	// count is the number of distinct people altogether.
	//
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=9
	Count int32 `json:"count"`
	// from are requirements by group or name. A person counts for one of them
	// only. Default: anybody who may approve.
	//
	// +kubebuilder:validation:MaxItems=9
	// +listType=atomic
	// +optional
	From []PeopleFrom `json:"from,omitempty"`
	// validFor is how long an approval counts. Default: 72h.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ValidFor *metav1.Duration `json:"validFor,omitempty"`
	// serviceAccounts lets service accounts count as people.
	//
	// +optional
	ServiceAccounts bool `json:"serviceAccounts,omitempty"`
	// distinctBy is what tells people apart: Username, or Extra: and the key of
	// an extra value, for people with several logins.
	//
	// +kubebuilder:default=Username
	// +kubebuilder:validation:Pattern=`^(Username|Extra:[^ ]+)$`
	// +kubebuilder:validation:MaxLength=256
	// +optional
	DistinctBy string `json:"distinctBy,omitempty"`
	// override: Allowed lets one person approve in the place of all of them: who
	// has the verb override on this policy, and says why in the annotation
	// certplane.dev/override of the request. What the policy denies stays denied.
	//
	// +kubebuilder:default=Forbidden
	// +optional
	Override PeopleOverride `json:"override,omitempty"`
	// carryOver: Allowed lets approvals of the request of an ACME order count for later
	// orders of the account that ask for no more, if the AcmeEndpoint has
	// approval.carryOver, and for as long as that and validFor say. They count only
	// while whoever gave them may still approve. Default: Forbidden.
	//
	// +optional
	CarryOver PeopleCarryOver `json:"carryOver,omitempty"`
}

// PeopleCarryOver says whether approvals count for later orders of ACME clients.
//
// +kubebuilder:validation:Enum=Forbidden;Allowed
type PeopleCarryOver string

// Whether approvals count for later orders of ACME clients.
const (
	CarryOverForbidden PeopleCarryOver = "Forbidden"
	CarryOverAllowed   PeopleCarryOver = "Allowed"
)

// PeopleOverride says whether one person can approve in the place of all others.
//
// +kubebuilder:validation:Enum=Forbidden;Allowed
type PeopleOverride string

// Whether one person can approve in the place of all others.
const (
	OverrideForbidden PeopleOverride = "Forbidden"
	OverrideAllowed   PeopleOverride = "Allowed"
)

// AnnotationOverride says why a person overrides the policies that require several
// people. Only who may override one can set it, on requests of others.
const AnnotationOverride = GroupName + "/override"

// PeopleFrom is a number of people who are in one of the groups or have one of
// the names.
type PeopleFrom struct {
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	// +optional
	Groups []string `json:"groups,omitempty"`
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	// +optional
	Users []string `json:"users,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Count int32 `json:"count"`
}

// CertificatePolicyStatus is the observed state of a policy.
type CertificatePolicyStatus struct {
	// observedGeneration is the generation of the spec that the status is
	// about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready says whether the policy is evaluated, and why not.
	// Protected says whether changes of the policy need several people, Proposed
	// whether there is a change that too few people have written. ApprovalsCounted is
	// False if signers of others do not count the approvals that the policy wants.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// digest is the SHA-256 digest of the spec, in hexadecimal digits.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
	// decisions counts the decisions that the policy took part in.
	//
	// +optional
	Decisions *PolicyDecisionCounts `json:"decisions,omitempty"`
	// shadow reports what the policy would change, in the modes Shadow and Warn.
	//
	// +optional
	Shadow *PolicyShadowStatus `json:"shadow,omitempty"`
}

// PolicyDecisionCounts counts decisions.
type PolicyDecisionCounts struct {
	// +optional
	Approved int64 `json:"approved,omitempty"`
	// +optional
	Denied int64 `json:"denied,omitempty"`
	// +optional
	Waiting int64 `json:"waiting,omitempty"`
	// +optional
	Left int64 `json:"left,omitempty"`
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
}

// PolicyShadowStatus reports what a policy would change.
type PolicyShadowStatus struct {
	// since is when counting began.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// evaluated is the number of requests, differences the number of those with
	// another outcome.
	//
	// +optional
	Evaluated int64 `json:"evaluated,omitempty"`
	// +optional
	Differences int64 `json:"differences,omitempty"`
	// samples are some of the differences.
	//
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Samples []PolicyShadowSample `json:"samples,omitempty"`
}

// PolicyShadowSample is a request that the policy would decide otherwise.
type PolicyShadowSample struct {
	// request is the kind, namespace and name of the request.
	Request string          `json:"request"`
	Was     DecisionOutcome `json:"was"`
	Would   DecisionOutcome `json:"would"`
	// +kubebuilder:validation:MaxItems=3
	// +listType=atomic
	// +optional
	Violations []string `json:"violations,omitempty"`
}

// The conditions of policies other than Ready.
const (
	// PolicyProtected says whether changes of the policy need several people.
	PolicyProtected = "Protected"
	// PolicyProposed says whether there is a change of the policy that too few
	// people have written. Exceptions have it, too.
	PolicyProposed = "Proposed"
	// PolicyApprovalsCounted is False if the policy wants approvals of people for
	// signers of others, which do not count them.
	PolicyApprovalsCounted = "ApprovalsCounted"
)
