package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyTest is a file with tests of policies for "certplane policy test": requests and the
// expected decisions. The API does not serve it.
type PolicyTest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	Metadata PolicyTestMetadata `json:"metadata,omitzero"`
	// policies are files and folders with CertificatePolicies and
	// CertificatePolicyExceptions, relative to this file. A * in a name matches any run of
	// characters other than /.
	Policies []string `json:"policies"`
	// facts are files with the objects that policies can read, such as Namespaces, Nodes,
	// Pods, Services and Certificates. Missing objects are unknown. The requests in these
	// files are the only stored requests.
	//
	// +optional
	Facts []string `json:"facts,omitempty"`
	// access lists the permissions that match.access of policies checks. Permissions that
	// are not listed are denied.
	//
	// +optional
	Access []PolicyTestAccess `json:"access,omitempty"`
	// time is the time of the decisions. Default: 2026-01-01T00:00:00Z.
	//
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// cases are the tests.
	Cases []PolicyTestCase `json:"cases"`
}

// PolicyTestMetadata names a PolicyTest.
type PolicyTestMetadata struct {
	// +optional
	Name string `json:"name,omitempty"`
}

// PolicyTestAccess is a permission of a user or a group.
type PolicyTestAccess struct {
	// +optional
	User string `json:"user,omitempty"`
	// +optional
	UserGroup string `json:"userGroup,omitempty"`
	Verb      string `json:"verb"`
	// group and resource are the API group and the resource of the object. Default: the
	// policies themselves, certificatepolicies.certplane.dev.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// +optional
	Resource string `json:"resource,omitempty"`
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// name is the name of the object. Default: any.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// namespace is the namespace of the permission. Default: all namespaces.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// PolicyTestCase is a request and the expected decision.
type PolicyTestCase struct {
	// name describes the test. It is unique in the file.
	Name string `json:"name"`
	// ask describes the request. Either ask or request is required.
	//
	// +optional
	Ask *PolicyTestRequest `json:"ask,omitempty"`
	// request is a file with the request: an object, a Certificate, or a PKCS#10 request in
	// PEM; for the latter, ask describes the rest.
	//
	// +optional
	Request string `json:"request,omitempty"`
	// matrix creates a case for each combination of values: its keys are fields of ask,
	// with the values that replace the field.
	//
	// +optional
	Matrix map[string][]json.RawMessage `json:"matrix,omitempty"`
	// votes are approvals by people.
	//
	// +optional
	Votes []PolicyTestVote `json:"votes,omitempty"`
	// renews is an earlier request for the same content whose certificate this request
	// renews. Default: none.
	//
	// +optional
	Renews *PolicyTestRenewal `json:"renews,omitempty"`
	// quotas are the used parts of the policies' quotas. Default: the quotas are unused.
	//
	// +optional
	Quotas []PolicyTestQuota `json:"quotas,omitempty"`
	// expect is the expected decision.
	Expect PolicyTestExpectation `json:"expect"`
}

// PolicyTestRequest describes a request that is generated for the test.
type PolicyTestRequest struct {
	// kind is the kind of the request. Default: CertificateRequest if signer is an issuer
	// of cert-manager.io and namespace is set, PodCertificateRequest if pod is set,
	// otherwise CertificateSigningRequest.
	//
	// +optional
	Kind RequestKind `json:"kind,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// signer is the signer's name as in match.signers.
	//
	// +optional
	Signer string `json:"signer,omitempty"`
	// ownSigner is true if the signer is one of certplane's own, which apply the lifetimes
	// of policies.
	//
	// +optional
	OwnSigner bool `json:"ownSigner,omitempty"`
	// as is the requester. Default: the pod's service account for a pod's request, and the
	// certificate controller for a request with an owner.
	//
	// +optional
	As *PolicyTestUser `json:"as,omitempty"`
	// origin is the origin of the request. Default: Certificate if owner is set, ACME if
	// acme is set, otherwise Direct.
	//
	// +optional
	Origin RequestOrigin `json:"origin,omitempty"`
	// acme is the ACME order that the request is for. Default with the origin ACME: an
	// order without an account and without identifiers.
	//
	// +optional
	ACME *ProvenOrder `json:"acme,omitempty"`
	// owner is the Certificate in facts for which the request is created.
	//
	// +optional
	Owner *PolicyTestOwner `json:"owner,omitempty"`
	// pod is the name of the pod in facts that makes the request.
	//
	// +optional
	Pod string `json:"pod,omitempty"`
	// userAnnotations are the pod's annotations for the signer.
	//
	// +optional
	UserAnnotations map[string]string `json:"userAnnotations,omitempty"`
	// labels and annotations are the labels and annotations of the request.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// age is the age of the request. Default: 0.
	//
	// +optional
	Age *metav1.Duration `json:"age,omitempty"`

	// commonName is the common name in the subject; subject sets the other attributes.
	//
	// +optional
	CommonName string `json:"commonName,omitempty"`
	// +optional
	Subject *PolicyTestSubject `json:"subject,omitempty"`
	// +optional
	DNSNames []string `json:"dnsNames,omitempty"`
	// +optional
	IPAddresses []string `json:"ipAddresses,omitempty"`
	// +optional
	URIs []string `json:"uris,omitempty"`
	// +optional
	EmailAddresses []string `json:"emailAddresses,omitempty"`
	// +optional
	OtherNames []PolicyTestOtherName `json:"otherNames,omitempty"`
	// usages are the usages requested in the object. Not for a pod's request.
	//
	// +optional
	Usages []string `json:"usages,omitempty"`
	// isCA asks for a CA certificate, both in the object if it has a field for it and in
	// the PKCS#10 request.
	//
	// +optional
	IsCA bool `json:"isCA,omitempty"`
	// maxPathLength is the maximum path length of the CA. Default: no limit.
	//
	// +optional
	MaxPathLength *int32 `json:"maxPathLength,omitempty"`
	// nameConstraints are the name constraints of the CA.
	//
	// +optional
	NameConstraints *PolicyTestNameConstraints `json:"nameConstraints,omitempty"`
	// extensions are further extensions of the PKCS#10 request.
	//
	// +optional
	Extensions []PolicyTestExtension `json:"extensions,omitempty"`
	// key is the type of the key. Default: ECDSAP256.
	//
	// +optional
	Key KeyType `json:"key,omitempty"`
	// duration is the requested lifetime. Default: none is requested.
	//
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// raw replaces parts of the PKCS#10 request. Invalid values are permitted.
	//
	// +optional
	Raw *PolicyTestRaw `json:"raw,omitempty"`
}

// PolicyTestUser is a user.
type PolicyTestUser struct {
	// +optional
	Username string `json:"username,omitempty"`
	// serviceAccount is NAMESPACE/NAME. It sets the username and the groups of this service
	// account.
	//
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// +optional
	UID string `json:"uid,omitempty"`
	// groups are the user's groups. system:authenticated is added.
	//
	// +optional
	Groups []string `json:"groups,omitempty"`
	// +optional
	Extra map[string][]string `json:"extra,omitempty"`
}

// PolicyTestOwner names a Certificate in the namespace of the request.
type PolicyTestOwner struct {
	Name string `json:"name"`
}

// PolicyTestSubject is a set of attributes of a subject.
type PolicyTestSubject struct {
	// +optional
	Organizations []string `json:"organizations,omitempty"`
	// +optional
	OrganizationalUnits []string `json:"organizationalUnits,omitempty"`
	// +optional
	Countries []string `json:"countries,omitempty"`
	// +optional
	Localities []string `json:"localities,omitempty"`
	// +optional
	Provinces []string `json:"provinces,omitempty"`
	// +optional
	StreetAddresses []string `json:"streetAddresses,omitempty"`
	// +optional
	PostalCodes []string `json:"postalCodes,omitempty"`
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// other are attributes by their OIDs.
	//
	// +optional
	Other []PolicyTestOtherName `json:"other,omitempty"`
}

// PolicyTestOtherName is a text with an object identifier.
type PolicyTestOtherName struct {
	OID   string `json:"oid"`
	Value string `json:"value"`
}

// PolicyTestNameConstraints are the name constraints that a CA requests.
type PolicyTestNameConstraints struct {
	// +optional
	Critical bool `json:"critical,omitempty"`
	// +optional
	Permitted *PermittedNames `json:"permitted,omitempty"`
	// +optional
	Excluded *PermittedNames `json:"excluded,omitempty"`
}

// PolicyTestExtension is an extension of a PKCS#10 request.
type PolicyTestExtension struct {
	OID string `json:"oid"`
	// +optional
	Critical bool `json:"critical,omitempty"`
	// value is the DER of the value, in hexadecimal digits.
	//
	// +optional
	Value string `json:"value,omitempty"`
}

// PolicyTestRaw contains parts of a PKCS#10 request, as DER in hexadecimal digits.
type PolicyTestRaw struct {
	// subject replaces the subject.
	//
	// +optional
	Subject string `json:"subject,omitempty"`
	// san is the value of the subject alternative name extension.
	//
	// +optional
	SAN string `json:"san,omitempty"`
	// secondSAN is the value of a second subject alternative name extension.
	//
	// +optional
	SecondSAN string `json:"secondSAN,omitempty"`
}

// PolicyTestVote is an approval by a person.
type PolicyTestVote struct {
	As PolicyTestUser `json:"as"`
	// ago is the time between the approval and the decision. Default: just before the
	// decision.
	//
	// +optional
	Ago *metav1.Duration `json:"ago,omitempty"`
	// override is the person's reason for approving in place of all required people. It
	// applies to each policy that permits it and for which access lists the verb override.
	//
	// +optional
	Override string `json:"override,omitempty"`
}

// PolicyTestRenewal is an earlier request for the same content.
type PolicyTestRenewal struct {
	// ago is the time between the issuance of its certificate and the decision.
	Ago metav1.Duration `json:"ago"`
	// lifetime is the lifetime of its certificate.
	Lifetime metav1.Duration `json:"lifetime"`
	// votes are the approvals of the earlier request by people. Default of ago: just before
	// the certificate was issued.
	//
	// +optional
	Votes []PolicyTestVote `json:"votes,omitempty"`
}

// PolicyTestQuota is the used part of the quota to which the request belongs.
type PolicyTestQuota struct {
	// policy is the name of the policy, name the name of the quota.
	Policy string `json:"policy"`
	Name   string `json:"name"`
	// used is the number of requests that count.
	Used int32 `json:"used"`
	// counted is true if the request is one of them.
	//
	// +optional
	Counted bool `json:"counted,omitempty"`
}

// PolicyTestExpectation is the expected decision. Lists are compared only if they are set,
// regardless of order.
type PolicyTestExpectation struct {
	// +optional
	Outcome DecisionOutcome `json:"outcome,omitempty"`
	// policy is the name of the policy that allowed the request, or of the first policy
	// that refused it.
	//
	// +optional
	Policy string `json:"policy,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// violations are all expected violations. Only the fields that are set are compared.
	//
	// +optional
	Violations []PolicyTestViolation `json:"violations,omitempty"`
	// missing are the approvals by people that are still missing.
	//
	// +optional
	Missing []PeopleFrom `json:"missing,omitempty"`
	// open are the facts that are unknown.
	//
	// +optional
	Open []string `json:"open,omitempty"`
	// shadow are the outcomes that the policies in the modes Shadow and Warn would have, by
	// the name of the policy.
	//
	// +optional
	Shadow map[string]DecisionOutcome `json:"shadow,omitempty"`
}

// PolicyTestViolation is a violation. See PolicyViolation.
type PolicyTestViolation struct {
	// +optional
	Policy string `json:"policy,omitempty"`
	// +optional
	At string `json:"at,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Field string `json:"field,omitempty"`
	// +optional
	Value string `json:"value,omitempty"`
	// exception is the exception that covers the violation.
	//
	// +optional
	Exception string `json:"exception,omitempty"`
}
