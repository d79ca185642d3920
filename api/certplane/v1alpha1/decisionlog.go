package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// LoggedDecision is a line of the decision log. It contains a decision and all inputs other
// than the policies, including the content of the decision's facts, so that the decision
// can be repeated from the log.
type LoggedDecision struct {
	PolicyDecision `json:",inline"`
	// object is the request, with its metadata and its spec.
	//
	// +optional
	Object *runtime.RawExtension `json:"object,omitempty"`
	// ownSigner is true if the signer is one of the server's own.
	//
	// +optional
	OwnSigner *bool `json:"ownSigner,omitempty"`
	// builtIn is the built-in policy that allows the request, such as
	// builtin:selfnodeclient. Empty if no built-in policy allows it.
	//
	// +optional
	BuiltIn *string `json:"builtIn,omitempty"`
	// requestPolicies is the result of the CertificateRequestPolicies of approver-policy
	// for the request. Absent if they are not enforced.
	//
	// +optional
	RequestPolicies *RequestPoliciesRuling `json:"requestPolicies,omitempty"`
	// keys are the stored requests that the condition certificate.keys.reuse read. Absent
	// if they were not known.
	//
	// +optional
	Keys *StoredKeys `json:"keys,omitempty"`
	// earlier are the requests approved by people that the request may renew. Absent if
	// they were not known.
	//
	// +optional
	Earlier *EarlierRequests `json:"earlier,omitempty"`
	// order is the order of an ACME client for which the request was created, if the
	// decision read it.
	//
	// +optional
	Order *ProvenOrder `json:"order,omitempty"`
	// patience is how long after the request's creation conditions may wait for unknown
	// facts.
	//
	// +optional
	Patience *metav1.Duration `json:"patience,omitempty"`
	// certificate is the DER of the checked certificate, before it was signed or as another
	// CA signed it.
	//
	// +optional
	Certificate []byte `json:"certificate,omitempty"`
	// prospective is the DER of the certificate that the signer would issue.
	//
	// +optional
	Prospective []byte `json:"prospective,omitempty"`
	// votes are the approvals by people.
	//
	// +optional
	Votes []LoggedVote `json:"votes,omitempty"`
}

// RequestPoliciesRuling is the combined result of all CertificateRequestPolicies of
// approver-policy for a request.
type RequestPoliciesRuling struct {
	// outcome is Approve, Deny, Wait (not known yet) or Leave (none of them matches the
	// request).
	Outcome DecisionOutcome `json:"outcome"`
	// policy is the name of the policy that approves the request.
	//
	// +optional
	Policy string `json:"policy,omitempty"`
	// reason and message explain why the request is denied or waits.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// StoredKeys are the stored requests that the condition certificate.keys.reuse compares.
type StoredKeys struct {
	// same is the first other request with the same key, if it is older than the request.
	//
	// +optional
	Same *StoredRequest `json:"same,omitempty"`
	// previous is the last request of the same owner before the request.
	//
	// +optional
	Previous *StoredRequest `json:"previous,omitempty"`
}

// StoredRequest is a request that is stored in the API.
type StoredRequest struct {
	Kind RequestKind `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
	// keyFingerprint is the SHA-256 hash of its public key, as in the variable
	// request.keyFingerprint.
	//
	// +optional
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
}

// EarlierRequests are the stored requests that a request may renew.
type EarlierRequests struct {
	// +optional
	Requests []EarlierRequest `json:"requests,omitempty"`
}

// EarlierRequest is a request of the same owner for the same content that people approved.
type EarlierRequest struct {
	StoredRequest `json:",inline"`
	// notBefore and notAfter are the validity of its certificate.
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
	// votes are the approvals whose seals verify.
	//
	// +optional
	Votes []LoggedVote `json:"votes,omitempty"`
}

// LoggedVote is an approval by a person.
type LoggedVote struct {
	Username string `json:"username"`
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	Groups []string `json:"groups,omitempty"`
	// +optional
	Extra map[string][]string `json:"extra,omitempty"`
	Time  metav1.MicroTime    `json:"time"`
	// override is set if the user approved in place of all required people.
	//
	// +optional
	Override *LoggedOverride `json:"override,omitempty"`
	// carriedFrom is NAMESPACE/NAME of the earlier AcmeOrder that the user has
	// approved. It is empty of an approval of this request.
	//
	// +optional
	CarriedFrom string `json:"carriedFrom,omitempty"`
}

// LoggedOverride is an approval in place of all people whom policies require.
type LoggedOverride struct {
	// why is the reason that the user gave.
	Why string `json:"why"`
	// policies are the names of the overridden policies.
	Policies []string `json:"policies"`
}
