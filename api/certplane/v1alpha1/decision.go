package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PolicyDecision is a decision about a request by all policies. It is never
// stored: the command line prints it, and the decision log has one in each line.
type PolicyDecision struct {
	metav1.TypeMeta `json:",inline"`
	// id is the UID of the request, the stage and a number.
	//
	// +optional
	ID string `json:"id,omitempty"`
	// time is the time of the decision.
	//
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// +optional
	Stage DecisionStage `json:"stage,omitempty"`
	// +optional
	Request DecidedRequest `json:"request,omitzero"`
	// outcome is what follows for the request. reason and message explain it.
	Outcome DecisionOutcome `json:"outcome"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// policy is the policy that allowed the request, or the first that refused
	// it.
	//
	// +optional
	Policy *DecidingPolicy `json:"policy,omitempty"`
	// violations are the conditions that do not hold, those of Limits first.
	//
	// +optional
	Violations []PolicyViolation `json:"violations,omitempty"`
	// open are the conditions that need a fact which is not known yet.
	//
	// +optional
	Open []OpenCondition `json:"open,omitempty"`
	// people says who has to approve the request, and who has.
	//
	// +optional
	People *PeopleDecision `json:"people,omitempty"`
	// renews is the earlier request that the request renews, if therefore no people
	// have to approve it.
	//
	// +optional
	Renews *DecidedRenewal `json:"renews,omitempty"`
	// considered are all policies for the signer, with what they say.
	//
	// +optional
	Considered []ConsideredPolicy `json:"considered,omitempty"`
	// shadow says what policies in the modes Shadow and Warn would change.
	//
	// +optional
	Shadow []ShadowDecision `json:"shadow,omitempty"`
	// facts are what was read for the decision besides the request.
	//
	// +optional
	Facts []DecisionFact `json:"facts,omitempty"`
	// set is the digest of all policies and exceptions in force.
	//
	// +optional
	Set string `json:"set,omitempty"`
	// cost is the cost of all expressions, in CEL's units.
	//
	// +optional
	Cost uint64 `json:"cost,omitempty"`
	// micros is the time that the decision took, in microseconds.
	//
	// +optional
	Micros int64 `json:"micros,omitempty"`
}

// DecisionStage is when a decision is made.
type DecisionStage string

// The stages.
const (
	StageCreate   DecisionStage = "Create"
	StageOwner    DecisionStage = "Owner"
	StageApprove  DecisionStage = "Approve"
	StageApprover DecisionStage = "Approver"
	StageSign     DecisionStage = "Sign"
	StageAnswer   DecisionStage = "Answer"
	StageCheck    DecisionStage = "Check"
	StageReplay   DecisionStage = "Replay"
)

// DecisionOutcome is what follows from a decision.
type DecisionOutcome string

// The outcomes.
const (
	// OutcomeApprove: the request is approved without people, or enough people
	// have approved it.
	OutcomeApprove DecisionOutcome = "Approve"
	// OutcomeDeny: the request is denied.
	OutcomeDeny DecisionOutcome = "Deny"
	// OutcomeNeedPeople: people have to approve the request.
	OutcomeNeedPeople DecisionOutcome = "NeedPeople"
	// OutcomeWait: a fact is not known yet.
	OutcomeWait DecisionOutcome = "Wait"
	// OutcomeLeave: policies leave the request to whoever may approve it.
	OutcomeLeave DecisionOutcome = "Leave"
)

// DecidedRequest identifies a request.
type DecidedRequest struct {
	Kind RequestKind `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	Origin RequestOrigin `json:"origin,omitempty"`
	// signer is the name that match.signers is about.
	//
	// +optional
	Signer string `json:"signer,omitempty"`
	// requester is the username.
	//
	// +optional
	Requester string `json:"requester,omitempty"`
	// digest is the SHA-256 digest of what is asked for.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
}

// DecidingPolicy is a policy at the time of a decision.
type DecidingPolicy struct {
	Name string `json:"name"`
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// +optional
	Digest string `json:"digest,omitempty"`
}

// PolicyViolation is a condition of a policy that does not hold.
type PolicyViolation struct {
	Policy string `json:"policy"`
	// at is the address of the condition in the policy, such as
	// certificate.names.dns or rules[no-wildcards].
	//
	// +optional
	At string `json:"at,omitempty"`
	// reason is for conditions, in CamelCase.
	Reason string `json:"reason"`
	// field is the part of the request, such as dnsNames[1].
	//
	// +optional
	Field string `json:"field,omitempty"`
	// value is the value there.
	//
	// +optional
	Value string `json:"value,omitempty"`
	// wouldPass says what would be permitted.
	//
	// +optional
	WouldPass []string `json:"wouldPass,omitempty"`
	Message   string   `json:"message"`
	// exception is the exception that covers the violation, which then has no
	// effect.
	//
	// +optional
	Exception string `json:"exception,omitempty"`
}

// OpenCondition is a condition that needs a fact which is not known yet.
type OpenCondition struct {
	Policy string `json:"policy"`
	// +optional
	At string `json:"at,omitempty"`
	// fact is what is not known, such as nodes/n1.
	Fact string `json:"fact"`
}

// ProvenOrder is the order of an ACME client that a request was made for: the order
// names the UID of the request and has its content.
type ProvenOrder struct {
	// endpoint is the name of the AcmeEndpoint, account of the AcmeAccount.
	Endpoint string `json:"endpoint"`
	Account  string `json:"account"`
	// externalKey is NAMESPACE/NAME of the account's AcmeExternalKey. It is empty if
	// the account has none.
	//
	// +optional
	ExternalKey string `json:"externalKey,omitempty"`
	// +optional
	Identifiers []ProvenIdentifier `json:"identifiers,omitempty"`
}

// ProvenIdentifier is a name or an address, and how control of it was proven.
type ProvenIdentifier struct {
	// type is dns or ip.
	Type string `json:"type"`
	// value is that of the order, of wildcards without the leading "*.".
	Value string `json:"value"`
	// +optional
	Wildcard bool `json:"wildcard,omitempty"`
	// origin is Challenge, Preauthorized by the external key, or Reused from an
	// earlier order.
	//
	// +optional
	Origin AcmeOrigin `json:"origin,omitempty"`
	// method is the type of the challenge that was met. It is empty if the external
	// key is the proof.
	//
	// +optional
	Method string `json:"method,omitempty"`
	// validated is when control was proven.
	//
	// +optional
	Validated *metav1.Time `json:"validated,omitempty"`
}

// PeopleDecision says who has to approve a request, and who has.
type PeopleDecision struct {
	// met: enough people have approved.
	Met bool `json:"met"`
	// +optional
	Requirements []PeopleMissing `json:"requirements,omitempty"`
	// +optional
	Votes []CountedVote `json:"votes,omitempty"`
}

// DecidedRenewal is the earlier request that a request renews.
type DecidedRenewal struct {
	Kind RequestKind `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
	// lifetime is that of its certificate: a renewed one is not valid for longer.
	Lifetime metav1.Duration `json:"lifetime"`
}

// PeopleMissing is a requirement of a policy, and who is missing.
type PeopleMissing struct {
	Policy string `json:"policy"`
	// count is the number of people that the policy wants.
	Count int32 `json:"count"`
	// have is the number of those that have approved.
	//
	// +optional
	Have int32 `json:"have,omitempty"`
	// +optional
	Missing []PeopleFrom `json:"missing,omitempty"`
	// overriddenBy is the user who has approved in the place of the others.
	//
	// +optional
	OverriddenBy string `json:"overriddenBy,omitempty"`
}

// CountedVote is an approval by a person.
type CountedVote struct {
	User string `json:"user"`
	// +optional
	Groups []string `json:"groups,omitempty"`
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// counts: the approval counts. because says why not.
	Counts bool `json:"counts"`
	// +optional
	Because string `json:"because,omitempty"`
	// override says why the user has approved in the place of others.
	//
	// +optional
	Override string `json:"override,omitempty"`
	// carriedFrom is NAMESPACE/NAME of the earlier AcmeOrder that the user has
	// approved. It is empty of an approval of this request.
	//
	// +optional
	CarriedFrom string `json:"carriedFrom,omitempty"`
}

// ConsideredPolicy is what one policy says about a request.
type ConsideredPolicy struct {
	Policy string       `json:"policy"`
	Effect PolicyEffect `json:"effect"`
	// applies: the policy is about the request.
	Applies bool `json:"applies"`
	// because says which part of match does not hold if the policy does not
	// apply.
	//
	// +optional
	Because string `json:"because,omitempty"`
	// holds: all conditions hold.
	//
	// +optional
	Holds bool `json:"holds,omitempty"`
	// open is the number of conditions that need a fact, violations of those
	// that do not hold.
	//
	// +optional
	Open int `json:"open,omitempty"`
	// +optional
	Violations int `json:"violations,omitempty"`
}

// ShadowDecision says what a policy in the modes Shadow and Warn would change.
type ShadowDecision struct {
	Policy  string          `json:"policy"`
	Mode    PolicyMode      `json:"mode"`
	Outcome DecisionOutcome `json:"outcome"`
	// differs: the outcome is another one than without the policy.
	//
	// +optional
	Differs bool `json:"differs,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Violations []PolicyViolation `json:"violations,omitempty"`
}

// DecisionFact is something that was read for a decision: an object, an answer of
// the API's authorization, or how much of a quota was used.
type DecisionFact struct {
	// +optional
	Object string `json:"object,omitempty"`
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// +optional
	Access string `json:"access,omitempty"`
	// +optional
	Allowed *bool `json:"allowed,omitempty"`
	// +optional
	Quota *DecisionQuota `json:"quota,omitempty"`
	// absent: it is known that there is no such object.
	//
	// +optional
	Absent bool `json:"absent,omitempty"`
	// content is the object as far as the decision read it. Only the decision
	// log has it.
	//
	// +optional
	Content *runtime.RawExtension `json:"content,omitempty"`
}
