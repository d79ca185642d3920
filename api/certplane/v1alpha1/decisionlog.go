package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// LoggedDecision is a line of the decision log: a decision, and what it depends
// on besides the policies. Of the decision's facts, the log has the content.
// With it, anybody can decide again.
type LoggedDecision struct {
	PolicyDecision `json:",inline"`
	// object is the request, with its metadata and its spec.
	//
	// +optional
	Object *runtime.RawExtension `json:"object,omitempty"`
	// ownSigner: the signer is one of the server's.
	//
	// +optional
	OwnSigner *bool `json:"ownSigner,omitempty"`
	// builtIn is the built-in policy that allows the request, such as
	// builtin:selfnodeclient; empty if none does.
	//
	// +optional
	BuiltIn *string `json:"builtIn,omitempty"`
	// requestPolicies is what the CertificateRequestPolicies of approver-policy say
	// about the request; absent if they are not enforced.
	//
	// +optional
	RequestPolicies *RequestPoliciesRuling `json:"requestPolicies,omitempty"`
	// keys are the stored requests that the condition certificate.keys.reuse read;
	// absent if they were not known.
	//
	// +optional
	Keys *StoredKeys `json:"keys,omitempty"`
	// earlier are the requests with approvals of people that the request may renew;
	// absent if they were not known.
	//
	// +optional
	Earlier *EarlierRequests `json:"earlier,omitempty"`
	// order is the order of an ACME client that the request was made for, if the
	// decision has read that.
	//
	// +optional
	Order *ProvenOrder `json:"order,omitempty"`
	// patience is how long after the creation of the request conditions may be
	// open.
	//
	// +optional
	Patience *metav1.Duration `json:"patience,omitempty"`
	// certificate is the DER of the certificate that the decision was about,
	// before it was signed or as another CA has signed it.
	//
	// +optional
	Certificate []byte `json:"certificate,omitempty"`
	// prospective is the DER of what the signer would issue.
	//
	// +optional
	Prospective []byte `json:"prospective,omitempty"`
	// votes are the approvals of people.
	//
	// +optional
	Votes []LoggedVote `json:"votes,omitempty"`
}

// RequestPoliciesRuling is what all CertificateRequestPolicies of approver-policy
// together say about a request.
type RequestPoliciesRuling struct {
	// outcome is Approve, Deny, Wait if it is not known yet, or Leave if none of
	// them is about the request.
	Outcome DecisionOutcome `json:"outcome"`
	// policy is the one that approves the request.
	//
	// +optional
	Policy string `json:"policy,omitempty"`
	// reason and message say why the request is denied or waits.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// StoredKeys are the stored requests that the condition certificate.keys.reuse is
// about.
type StoredKeys struct {
	// same is the first of the other requests with the same key, if it comes before
	// the request.
	//
	// +optional
	Same *StoredRequest `json:"same,omitempty"`
	// previous is the last request of the same owner before the request.
	//
	// +optional
	Previous *StoredRequest `json:"previous,omitempty"`
}

// StoredRequest is a request that the API has.
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

// EarlierRequest is a request of the same owner that asks for the same, and that
// people have approved.
type EarlierRequest struct {
	StoredRequest `json:",inline"`
	// notBefore and notAfter are those of its certificate.
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
	// override is set if the user has approved in the place of others.
	//
	// +optional
	Override *LoggedOverride `json:"override,omitempty"`
	// carriedFrom is NAMESPACE/NAME of the earlier AcmeOrder that the user has
	// approved. It is empty of an approval of this request.
	//
	// +optional
	CarriedFrom string `json:"carriedFrom,omitempty"`
}

// LoggedOverride is an approval in the place of all people whom policies require.
type LoggedOverride struct {
	// why is what the user has written.
	Why string `json:"why"`
	// policies are the names of the policies.
	Policies []string `json:"policies"`
}
