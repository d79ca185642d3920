package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertificatePolicy decides whether a request for a certificate is approved, refused, or
// needs approval by people. It applies to all kinds of requests, and is evaluated when a
// request is created, approved and signed.
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
	// description explains the policy to people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`
	// effect is the effect of the policy. Allow: a request that meets the conditions is
	// handled as approval sets. Limit: a guardrail; every request that matches must meet
	// the conditions, whichever policy or user approves it. DenyRest: a request that
	// matches is denied if no Allow policy matches it.
	Effect PolicyEffect `json:"effect"`
	// mode is the effect of the policy's decisions. Enforce: they are enforced. Warn: the
	// requester gets a warning. Shadow: they are counted in status.shadow. Off: the policy
	// is compiled but not evaluated.
	//
	// +kubebuilder:default=Enforce
	// +optional
	Mode PolicyMode `json:"mode,omitempty"`
	// replaces is the name of another policy. This policy is evaluated in its place. Only
	// with the modes Shadow and Warn, which then report the decisions that would change.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Replaces string `json:"replaces,omitempty"`
	// match selects the requests to which the policy applies.
	Match PolicyMatch `json:"match"`
	// certificate contains the conditions on the requested certificate. An Allow policy
	// does not permit content that is not mentioned here; a Limit does not restrict it. Not
	// for DenyRest.
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
	// quotas limit the number of requests that the policy permits. Not for DenyRest.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Quotas []PolicyQuota `json:"quotas,omitempty"`
	// approval sets how a request that meets the conditions is approved. Default of an
	// Allow policy: Automatic. A Limit can require people. Not for DenyRest.
	//
	// +optional
	Approval *PolicyApproval `json:"approval,omitempty"`
	// message is added to refusals, for example a contact or a link.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// disclosure sets the details of a refusal that the requester sees. Full: the field,
	// the reason, and permitted values. Reason: only the field and the reason.
	//
	// +kubebuilder:default=Full
	// +optional
	Disclosure PolicyDisclosure `json:"disclosure,omitempty"`
	// protection requires several people for changes of the policy: a change by one person
	// is a proposal, which takes effect once enough people have written the same. Default:
	// every user with write access can change the policy alone.
	//
	// +optional
	Protection *PolicyProtection `json:"protection,omitempty"`
}

// EffectiveMode returns the mode, or Enforce if none is set.
func (s *CertificatePolicySpec) EffectiveMode() PolicyMode { return cmp.Or(s.Mode, PolicyEnforce) }

// PolicyProtection sets the people who have to agree before this policy changes, an
// exception from it takes effect, or another Allow policy for one of its signers is
// enforced or changed. It applies in every mode. The policy can be deleted only in the mode
// Off.
type PolicyProtection struct {
	// people is the number of people who have to write the same specification, and their
	// groups.
	People ProtectingPeople `json:"people"`
}

// ProtectingPeople is the number of people who have to write the same specification, and
// their groups. Each person counts once.
type ProtectingPeople struct {
	// count is the number of distinct people altogether.
	//
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=9
	Count int32 `json:"count"`
	// from are requirements by group or name. A person counts for only one of them.
	// Default: all users with write access to the policy.
	//
	// +kubebuilder:validation:MaxItems=9
	// +listType=atomic
	// +optional
	From []PeopleFrom `json:"from,omitempty"`
	// validFor is how long a proposal stays valid. Default: 72h.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	ValidFor *metav1.Duration `json:"validFor,omitempty"`
	// serviceAccounts lets each service account count as one person.
	//
	// +optional
	ServiceAccounts bool `json:"serviceAccounts,omitempty"`
	// distinctBy is the attribute that identifies a person: Username, or Extra: and the key
	// of an extra value, for people with several logins.
	//
	// +kubebuilder:default=Username
	// +kubebuilder:validation:Pattern=`^(Username|Extra:[^ ]+)$`
	// +kubebuilder:validation:MaxLength=256
	// +optional
	DistinctBy string `json:"distinctBy,omitempty"`
}

// Requirement returns p as a requirement of a policy for requests.
func (p ProtectingPeople) Requirement() PeopleRequirement {
	return PeopleRequirement{Count: p.Count, From: p.From, ValidFor: p.ValidFor, ServiceAccounts: p.ServiceAccounts, DistinctBy: p.DistinctBy}
}

// AnnotationProposals holds the proposed changes of a policy or an exception, as a JSON
// list of sealed records. Only the server writes it.
const AnnotationProposals = GroupName + "/proposals"

// AnnotationAgreed holds the people who wrote the current specification of a policy or an
// exception, if several were required, in the same form as AnnotationProposals. Only the
// server writes it.
const AnnotationAgreed = GroupName + "/agreed"

// PolicyEffect is the effect of a policy.
//
// +kubebuilder:validation:Enum=Allow;Limit;DenyRest
type PolicyEffect string

// The effects of policies.
const (
	PolicyAllow    PolicyEffect = "Allow"
	PolicyLimit    PolicyEffect = "Limit"
	PolicyDenyRest PolicyEffect = "DenyRest"
)

// PolicyMode is the effect of a policy's decisions.
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

// PolicyDisclosure sets the details of a refusal that the requester sees.
//
// +kubebuilder:validation:Enum=Full;Reason
type PolicyDisclosure string

// Values of PolicyDisclosure.
const (
	DiscloseFull   PolicyDisclosure = "Full"
	DiscloseReason PolicyDisclosure = "Reason"
)

// PolicyMatch selects requests: all fields must match. The values of a list are
// alternatives.
type PolicyMatch struct {
	// kinds are the matching kinds of requests. Default: all.
	//
	// +kubebuilder:validation:items:Enum=CertificateSigningRequest;PodCertificateRequest;CertificateRequest
	// +listType=set
	// +optional
	Kinds []RequestKind `json:"kinds,omitempty"`
	// origins are the matching origins of requests. Certificate: a controller created the
	// request for a Certificate. ACME: an ACME server created it. Direct: all other
	// requests, whatever their labels. Default: all.
	//
	// +listType=set
	// +optional
	Origins []RequestOrigin `json:"origins,omitempty"`
	// signers are patterns of signer names. The signer name of a CertificateRequest is
	// derived from its issuer: issuers.cert-manager.io/NAMESPACE.NAME or
	// clusterissuers.cert-manager.io/NAME, for other groups PLURAL.GROUP/NAMESPACE.NAME. A
	// * in a name matches one or more characters other than /; a lone * matches every
	// signer.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=571
	// +listType=set
	Signers []string `json:"signers"`
	// namespaces selects the namespace of the request. A CertificateSigningRequest belongs
	// to the namespace of the service account that requests it; with any other requester it
	// has no namespace and does not match.
	//
	// +optional
	Namespaces *NamespaceMatch `json:"namespaces,omitempty"`
	// requesters selects the user who made the request.
	//
	// +optional
	Requesters *RequesterMatch `json:"requesters,omitempty"`
	// access lists permissions that the requester must have in the API's authorization, in
	// the request's namespace if it has one.
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

// RequestOrigin is the origin of a request.
//
// +kubebuilder:validation:Enum=Direct;Certificate;ACME
type RequestOrigin string

// Origins of requests.
const (
	OriginDirect      RequestOrigin = "Direct"
	OriginCertificate RequestOrigin = "Certificate"
	OriginACME        RequestOrigin = "ACME"
)

// NamespaceMatch selects namespaces. All fields must hold.
type NamespaceMatch struct {
	// names are patterns in which a * matches any run of characters.
	//
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
	// excluded are patterns for namespaces that do not match.
	//
	// +listType=set
	// +optional
	Excluded []string `json:"excluded,omitempty"`
	// selector selects namespaces by their labels.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// RequesterMatch selects users: the users in any of the three lists, or all users if the
// lists are empty, except those in excluded.
type RequesterMatch struct {
	RequesterLists `json:",inline"`
	// excluded are users who do not match.
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
	// serviceAccounts are NAMESPACE/NAME. A * in either part matches any run of characters.
	//
	// +listType=set
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
}

// AccessMatch is a permission that the requester must have. Without a resource it refers to
// this policy: a policy that requires the verb use on certificatepolicies with its own name
// can be bound to users by RBAC.
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

// MatchCondition is an expression that must be true for a policy to apply. If its
// evaluation fails, Limit and DenyRest policies apply, and Allow policies do not.
type MatchCondition struct {
	// name is unique in the policy.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// expression returns a bool.
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
	// usages are required in an Allow policy.
	//
	// +optional
	Usages *UsageConditions `json:"usages,omitempty"`
	// +optional
	Lifetime *LifetimeConditions `json:"lifetime,omitempty"`
	// authority contains the conditions on CA certificates.
	//
	// +optional
	Authority *AuthorityConditions `json:"authority,omitempty"`
	// +optional
	Extensions *ExtensionConditions `json:"extensions,omitempty"`
}

// Text is a set of conditions on a text. If patterns or matches are set, one of them must
// match. If expression is set, its result, a list, must contain the text. Without any of
// them, every text is permitted.
type Text struct {
	// patterns are texts in which a * matches any run of characters. {namespace},
	// {serviceAccount}, {user}, {node}, {pod}, {service}, {namespaceLabel:KEY},
	// {podLabel:KEY} and {acmeAccount} are replaced by values of the request; a * in a
	// value is literal.
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
	// expression returns the list of permitted texts.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// required requires at least one value in the certificate.
	//
	// +optional
	Required bool `json:"required,omitempty"`
}

// SubjectConditions are conditions on the subject. Allow policies refuse attributes without
// conditions; Limits do not restrict them.
type SubjectConditions struct {
	// empty requires an empty subject.
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

// CommonName is a set of conditions on the common name. A subject may contain at most one.
type CommonName struct {
	Text `json:",inline"`
	// inNames requires that the common name is also one of the DNS names or IP addresses.
	// Some clients treat a common name as a DNS name.
	//
	// +optional
	InNames bool `json:"inNames,omitempty"`
}

// Texts is a set of conditions on the values of an attribute. Each value must be permitted.
type Texts struct {
	Text `json:",inline"`
	// exactly is the exact set of values, in any order.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Exactly []string `json:"exactly,omitempty"`
	// max is the maximum number of values.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// OIDTexts is a set of conditions on values with an object identifier.
type OIDTexts struct {
	// oid is the object identifier in dotted form, such as 1.3.6.1.4.1.311.20.2.3.
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

// NameConditions are conditions on the subject alternative names. Allow policies refuse
// kinds of names without conditions; Limits do not restrict them.
type NameConditions struct {
	// required requires at least one name.
	//
	// +optional
	Required bool `json:"required,omitempty"`
	// max is the maximum number of names of all kinds together.
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
	// zones are domains: the domain itself and all names below it are permitted. Templates
	// work as in patterns.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Zones []string `json:"zones,omitempty"`
	// patterns are compared label by label. A * in a label matches any run of characters of
	// this label; the label * matches exactly one label; a first label ** matches one or
	// more labels. Templates work as in subject.
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
	// expression returns the list of permitted names.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// excluded are names that are refused.
	//
	// +optional
	Excluded *ExcludedDNS `json:"excluded,omitempty"`
	// wildcards also permits the name *.NAME if the zone NAME is permitted.
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
	// expression returns the list of permitted addresses.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// excluded are addresses that are refused.
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
	// patterns are URIs whose scheme and host are literal. In the path, a * matches one or
	// more characters other than /, and a final /** matches one or more segments. Templates
	// work as in subject.
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
	// expression returns the list of permitted URIs.
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
	// domains are the permitted domains, without their subdomains. Templates work as in
	// subject.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Domains []string `json:"domains,omitempty"`
	// patterns are addresses in which a * matches any run of characters other than @.
	// Templates work as in subject.
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
	// expression returns the list of permitted addresses.
	//
	// +optional
	Expression CEL `json:"expression,omitempty"`
	// +optional
	Required bool `json:"required,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// KeyConditions are conditions on the public key. Both types and rsa can permit an RSA key.
// If neither is set, keys of all types are permitted.
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
	// reuse sets whether a request may use the key of an earlier request. Refuse: the key
	// must not be in an earlier request of any kind or requester. Require: the key must be
	// the key of the same owner's last request, ignoring denied and failed requests, if
	// there is one; not for PodCertificateRequests. The owner is the Certificate for which
	// the request was created; for other requests, the requester together with the signer,
	// the subject and the names. Only stored requests count: finished requests are deleted
	// after some time. Default: Allow.
	//
	// +optional
	Reuse KeyReuse `json:"reuse,omitempty"`
}

// KeyReuse sets whether a request may use the key of an earlier request.
//
// +kubebuilder:validation:Enum=Allow;Refuse;Require
type KeyReuse string

// Values of KeyReuse.
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

// UsageConditions are conditions on the usages. Usages have the names used in
// CertificateSigningRequests; extended usages can also be given by OID.
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
	// default is the lifetime of certificates if the request sets none. It applies to
	// signers of this server.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",message="must be hours, minutes and seconds, such as 24h or 1h30m"
	Default *metav1.Duration `json:"default,omitempty"`
	// exceeding sets the answer to a request for a lifetime longer than max. Refuse: the
	// request is refused. Shorten: signers of this server issue the certificate with the
	// lifetime max; requests to other signers are refused.
	//
	// +kubebuilder:default=Refuse
	// +optional
	Exceeding LifetimeExceeding `json:"exceeding,omitempty"`
}

// LifetimeExceeding is the answer to a request for a lifetime longer than the maximum.
//
// +kubebuilder:validation:Enum=Refuse;Shorten
type LifetimeExceeding string

// Answers to requests for a longer lifetime.
const (
	LifetimeRefuse  LifetimeExceeding = "Refuse"
	LifetimeShorten LifetimeExceeding = "Shorten"
)

// AuthorityConditions are conditions on CA certificates.
type AuthorityConditions struct {
	// allowed permits CA certificates.
	//
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// maxPathLength is the maximum path length. A request without a path length asks for an
	// unlimited path.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxPathLength *int32 `json:"maxPathLength,omitempty"`
	// nameConstraints sets whether the certificate must have name constraints.
	//
	// +kubebuilder:default=Optional
	// +optional
	NameConstraints NameConstraintsDemand `json:"nameConstraints,omitempty"`
	// permitted are the names that the certificate's name constraints may permit. The
	// constraints must not permit a kind of name that is not listed here.
	//
	// +optional
	Permitted *PermittedNames `json:"permitted,omitempty"`
}

// NameConstraintsDemand sets whether name constraints are required.
//
// +kubebuilder:validation:Enum=Required;Optional
type NameConstraintsDemand string

// Values of NameConstraintsDemand.
const (
	NameConstraintsRequired NameConstraintsDemand = "Required"
	NameConstraintsOptional NameConstraintsDemand = "Optional"
)

// PermittedNames are the names for which a CA may issue certificates.
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
	// allowed are the OIDs of extensions that may be requested. Signers do not have to copy
	// them.
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
	// kinds are the kinds of requests to which the rule applies. Default: all.
	//
	// +kubebuilder:validation:items:Enum=CertificateSigningRequest;PodCertificateRequest;CertificateRequest
	// +listType=set
	// +optional
	Kinds []RequestKind `json:"kinds,omitempty"`
	// expression returns true for a request that meets the rule.
	Expression CEL `json:"expression"`
	// message explains to the requester what is not permitted, and why.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// messageExpression returns a message of one line. It takes precedence over message.
	//
	// +optional
	MessageExpression CEL `json:"messageExpression,omitempty"`
	// reason is the reason of the refusal, in CamelCase. Default: RuleViolated.
	//
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +optional
	Reason string `json:"reason,omitempty"`
	// field is the field of the request that the rule checks, such as dnsNames.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Field string `json:"field,omitempty"`
}

// PolicyApproval sets how a request that meets the conditions is approved.
type PolicyApproval struct {
	// mode sets how the request is approved. Automatic: certplane approves it. People: the
	// people in people approve it, each by an ordinary approval. Leave: any user with the
	// right to approve can approve it.
	//
	// +kubebuilder:default=Automatic
	// +optional
	Mode PolicyApprovalMode `json:"mode,omitempty"`
	// people are the people who have to approve the request. Only with the mode People.
	//
	// +optional
	People *PeopleRequirement `json:"people,omitempty"`
	// renewals sets how a request that renews a certificate is approved, with the mode
	// People. People: the people in people approve it. Automatic: certplane approves it. A
	// request renews an earlier, still stored request if three conditions hold: the same
	// owner asks for the same content, at most with another key; as many people, and of the
	// same groups, approved the earlier request as people requires now; and the earlier
	// certificate is valid now and signed by the signer's CA, that is, a root in the
	// signer's ClusterTrustBundles or the CA of an Issuer or ClusterIssuer. If the CA is
	// not known, people have to approve. The new certificate does not get a longer lifetime
	// than the earlier one. A certificate from an automatic renewal cannot be renewed in
	// this way again, so people have to approve at the latest when the second lifetime is
	// over. CA certificates are never renewed automatically. Default: People.
	//
	// +optional
	Renewals RenewalApproval `json:"renewals,omitempty"`
	// issueOnCreate approves a request that meets the conditions within the call that
	// creates it, and also signs it if the signer's CA is in "certplane serve": the
	// response contains the certificate, and one write stores the request, its approval and
	// its certificate. If false, the request is approved and signed after it is stored.
	// Only with the mode Automatic; it has no effect in clusters. Default: true, but false
	// for the signers under kubernetes.io, whose clients may expect three steps.
	//
	// +optional
	IssueOnCreate *bool `json:"issueOnCreate,omitempty"`
}

// RenewalApproval is how renewals are approved.
//
// +kubebuilder:validation:Enum=Automatic;People
type RenewalApproval string

// Values of RenewalApproval.
const (
	RenewAutomatic RenewalApproval = "Automatic"
	RenewPeople    RenewalApproval = "People"
)

// PolicyApprovalMode is how requests are approved.
//
// +kubebuilder:validation:Enum=Automatic;People;Leave
type PolicyApprovalMode string

// Modes of approval.
const (
	ApproveAutomatic PolicyApprovalMode = "Automatic"
	ApprovePeople    PolicyApprovalMode = "People"
	ApproveLeave     PolicyApprovalMode = "Leave"
)

// PeopleRequirement is the number of people who have to approve a request, and their
// groups. Each person counts once, and users cannot approve their own requests.
type PeopleRequirement struct {
	// count is the number of distinct people altogether.
	//
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=9
	Count int32 `json:"count"`
	// from are requirements by group or name. A person counts for only one of them.
	// Default: all users with the right to approve.
	//
	// +kubebuilder:validation:MaxItems=9
	// +listType=atomic
	// +optional
	From []PeopleFrom `json:"from,omitempty"`
	// validFor is how long an approval stays valid. Default: 72h.
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
	// distinctBy is the attribute that identifies a person: Username, or Extra: and the key
	// of an extra value, for people with several logins.
	//
	// +kubebuilder:default=Username
	// +kubebuilder:validation:Pattern=`^(Username|Extra:[^ ]+)$`
	// +kubebuilder:validation:MaxLength=256
	// +optional
	DistinctBy string `json:"distinctBy,omitempty"`
	// override sets whether one person can approve in place of all required people.
	// Allowed: users with the verb override on this policy can do so, and give their reason
	// in the annotation certplane.dev/override of the request. Requests that the policy
	// denies stay denied.
	//
	// +kubebuilder:default=Forbidden
	// +optional
	Override PeopleOverride `json:"override,omitempty"`
	// carryOver sets whether approvals of the request of an ACME order count for later
	// orders of the account that do not ask for more. Allowed: they count as long as both
	// approval.carryOver of the AcmeEndpoint and validFor permit, and only while the
	// approving user still has the right to approve. Default: Forbidden.
	//
	// +optional
	CarryOver PeopleCarryOver `json:"carryOver,omitempty"`
}

// PeopleCarryOver sets whether approvals count for later orders of ACME clients.
//
// +kubebuilder:validation:Enum=Forbidden;Allowed
type PeopleCarryOver string

// Values of PeopleCarryOver.
const (
	CarryOverForbidden PeopleCarryOver = "Forbidden"
	CarryOverAllowed   PeopleCarryOver = "Allowed"
)

// PeopleOverride sets whether one person can approve in place of all required people.
//
// +kubebuilder:validation:Enum=Forbidden;Allowed
type PeopleOverride string

// Values of PeopleOverride.
const (
	OverrideForbidden PeopleOverride = "Forbidden"
	OverrideAllowed   PeopleOverride = "Allowed"
)

// AnnotationOverride is a person's reason for overriding the policies that require several
// people. Setting it requires the verb override on one of these policies. Users cannot set
// it on their own requests.
const AnnotationOverride = GroupName + "/override"

// PeopleFrom requires a number of people who are in one of the groups or have one of the
// names.
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
	// observedGeneration is the generation of the spec that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready reports whether the policy is evaluated, and why not. Protected
	// reports whether changes of the policy need several people. Proposed reports whether a
	// change waits for more people to write it. ApprovalsCounted is False if the policy
	// requires approvals for signers of other programs, which do not count them.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// digest is the SHA-256 digest of the spec, in hexadecimal digits.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
	// decisions counts the decisions in which the policy took part.
	//
	// +optional
	Decisions *PolicyDecisionCounts `json:"decisions,omitempty"`
	// shadow reports the decisions that the policy would change, in the modes Shadow and
	// Warn.
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

// PolicyShadowStatus reports the decisions that a policy would change.
type PolicyShadowStatus struct {
	// since is when counting began.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// evaluated is the number of evaluated requests, differences the number of requests
	// whose outcome would change.
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

// PolicyShadowSample is a request whose outcome the policy would change.
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

// Conditions of policies other than Ready.
const (
	// PolicyProtected reports whether changes of the policy need several people.
	PolicyProtected = "Protected"
	// PolicyProposed reports whether a change of the policy waits for more people to write
	// it. Exceptions have this condition too.
	PolicyProposed = "Proposed"
	// PolicyApprovalsCounted is False if the policy requires approvals by people for
	// signers of other programs, which do not count them.
	PolicyApprovalsCounted = "ApprovalsCounted"
)
