package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyTest has tests of policies: requests, and what must be decided about
// them. It is a file for "certplane policy test"; no API serves it.
type PolicyTest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	Metadata PolicyTestMetadata `json:"metadata,omitzero"`
	// policies are files and folders with CertificatePolicies and
	// CertificatePolicyExceptions, relative to this file. A * in a name is any
	// run of characters other than /.
	Policies []string `json:"policies"`
	// facts are files with the objects that policies can read, such as
	// Namespaces, Nodes, Pods, Services and Certificates. What is not there is
	// not known. The requests among them are all that are stored.
	//
	// +optional
	Facts []string `json:"facts,omitempty"`
	// access has the answers to match.access of policies. What is not listed is
	// denied.
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

// PolicyTestAccess is something that a user, or everybody in a group, may do.
type PolicyTestAccess struct {
	// +optional
	User string `json:"user,omitempty"`
	// +optional
	UserGroup string `json:"userGroup,omitempty"`
	Verb      string `json:"verb"`
	// group and resource are those of the object. Default: the policies
	// themselves, certificatepolicies.certplane.dev.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// +optional
	Resource string `json:"resource,omitempty"`
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// name is that of the object. Default: any.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// namespace is where it is allowed. Default: everywhere.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// PolicyTestCase is a request and what must be decided about it.
type PolicyTestCase struct {
	// name says what is tested. It is unique in the file.
	Name string `json:"name"`
	// ask describes the request. Either ask or request must be given.
	//
	// +optional
	Ask *PolicyTestRequest `json:"ask,omitempty"`
	// request is a file with the request: an object, a Certificate, or a
	// PKCS#10 request in PEM, of which ask says the rest.
	//
	// +optional
	Request string `json:"request,omitempty"`
	// matrix makes a case of each combination: its keys are fields of ask, each
	// with the values that replace the field.
	//
	// +optional
	Matrix map[string][]json.RawMessage `json:"matrix,omitempty"`
	// votes are approvals by people.
	//
	// +optional
	Votes []PolicyTestVote `json:"votes,omitempty"`
	// renews says that the request renews a certificate: an earlier request asked for
	// the same, and has its certificate. Default: there is none.
	//
	// +optional
	Renews *PolicyTestRenewal `json:"renews,omitempty"`
	// quotas say how much of the quotas of policies is used. Default: nothing.
	//
	// +optional
	Quotas []PolicyTestQuota `json:"quotas,omitempty"`
	// expect is what must be decided.
	Expect PolicyTestExpectation `json:"expect"`
}

// PolicyTestRequest describes a request, which is made for the test.
type PolicyTestRequest struct {
	// kind is the kind of the request. Default: CertificateRequest if signer is
	// an issuer of cert-manager.io and there is a namespace,
	// PodCertificateRequest if there is a pod, otherwise
	// CertificateSigningRequest.
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
	// ownSigner: the signer is one of certplane's, which keeps what policies say
	// about lifetimes.
	//
	// +optional
	OwnSigner bool `json:"ownSigner,omitempty"`
	// as is the requester. A pod's request has the pod's service account, one
	// for a Certificate the controller of Certificates.
	//
	// +optional
	As *PolicyTestUser `json:"as,omitempty"`
	// origin is how the request came to be. Default: Direct, with an owner
	// Certificate, with acme ACME.
	//
	// +optional
	Origin RequestOrigin `json:"origin,omitempty"`
	// acme is the order of an ACME client that the request is for. Default: with the
	// origin ACME an order of nobody, without identifiers.
	//
	// +optional
	ACME *ProvenOrder `json:"acme,omitempty"`
	// owner is the Certificate in facts that the request is for.
	//
	// +optional
	Owner *PolicyTestOwner `json:"owner,omitempty"`
	// pod is the name of the pod in facts whose request it is.
	//
	// +optional
	Pod string `json:"pod,omitempty"`
	// userAnnotations are the pod's, for the signer.
	//
	// +optional
	UserAnnotations map[string]string `json:"userAnnotations,omitempty"`
	// labels and annotations are those of the request.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// age is how long ago the request was created. Default: it is new.
	//
	// +optional
	Age *metav1.Duration `json:"age,omitempty"`

	// commonName is the common name in the subject, subject has its other
	// attributes.
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
	// usages are requested in the object. A pod's request has none.
	//
	// +optional
	Usages []string `json:"usages,omitempty"`
	// isCA asks for the certificate of a CA: in the object where it has a field
	// for it, and in the PKCS#10 request.
	//
	// +optional
	IsCA bool `json:"isCA,omitempty"`
	// maxPathLength is that of the CA. Default: no limit.
	//
	// +optional
	MaxPathLength *int32 `json:"maxPathLength,omitempty"`
	// nameConstraints are those of the CA.
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
	// raw replaces parts of the PKCS#10 request, also by what is not valid.
	//
	// +optional
	Raw *PolicyTestRaw `json:"raw,omitempty"`
}

// PolicyTestUser is a user.
type PolicyTestUser struct {
	// +optional
	Username string `json:"username,omitempty"`
	// serviceAccount is NAMESPACE/NAME, in place of the username and the groups
	// that service accounts have.
	//
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// +optional
	UID string `json:"uid,omitempty"`
	// groups do not need system:authenticated, in which every user is.
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

// PolicyTestSubject has attributes of a subject.
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

// PolicyTestNameConstraints are the names for which a CA asks to issue.
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
	// value is the DER, in hexadecimal digits.
	//
	// +optional
	Value string `json:"value,omitempty"`
}

// PolicyTestRaw has parts of a PKCS#10 request as DER in hexadecimal digits.
type PolicyTestRaw struct {
	// subject replaces the subject.
	//
	// +optional
	Subject string `json:"subject,omitempty"`
	// san is the value of the extension subject alternative name.
	//
	// +optional
	SAN string `json:"san,omitempty"`
	// secondSAN is the value of another such extension.
	//
	// +optional
	SecondSAN string `json:"secondSAN,omitempty"`
}

// PolicyTestVote is an approval by a person.
type PolicyTestVote struct {
	As PolicyTestUser `json:"as"`
	// ago is how long before the decision it was given. Default: just before.
	//
	// +optional
	Ago *metav1.Duration `json:"ago,omitempty"`
	// override says why the person approves in the place of all others: for each
	// policy that permits it and for which access lists the verb override.
	//
	// +optional
	Override string `json:"override,omitempty"`
}

// PolicyTestRenewal is an earlier request that asked for the same.
type PolicyTestRenewal struct {
	// ago is how long before the decision its certificate was issued.
	Ago metav1.Duration `json:"ago"`
	// lifetime is that of its certificate.
	Lifetime metav1.Duration `json:"lifetime"`
	// votes are the approvals by people that it has. Default of ago: just before the
	// certificate was issued.
	//
	// +optional
	Votes []PolicyTestVote `json:"votes,omitempty"`
}

// PolicyTestQuota says how much of a quota is used, for that to which the request
// belongs.
type PolicyTestQuota struct {
	// policy and name are those of the quota.
	Policy string `json:"policy"`
	Name   string `json:"name"`
	// used is the number of requests that count.
	Used int32 `json:"used"`
	// counted: the request is one of them.
	//
	// +optional
	Counted bool `json:"counted,omitempty"`
}

// PolicyTestExpectation is what must be decided. Lists must be the same in any
// order if they are given.
type PolicyTestExpectation struct {
	// +optional
	Outcome DecisionOutcome `json:"outcome,omitempty"`
	// policy is the name of the policy that allowed the request, or the first
	// that refused it.
	//
	// +optional
	Policy string `json:"policy,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// violations are all violations. Of each, only the given fields are
	// compared.
	//
	// +optional
	Violations []PolicyTestViolation `json:"violations,omitempty"`
	// missing are the people who still have to approve.
	//
	// +optional
	Missing []PeopleFrom `json:"missing,omitempty"`
	// open are the facts that are not known.
	//
	// +optional
	Open []string `json:"open,omitempty"`
	// shadow are the outcomes with the policies in the modes Shadow and Warn, by
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
