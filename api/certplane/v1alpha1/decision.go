package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PolicyDecision is a decision about a request by all policies. It is never stored in the
// API: the command line prints it, and each line of the decision log contains one.
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
	// outcome is the result for the request; reason and message explain it.
	Outcome DecisionOutcome `json:"outcome"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// policy is the policy that allowed the request, or the first policy that refused it.
	//
	// +optional
	Policy *DecidingPolicy `json:"policy,omitempty"`
	// violations are the conditions that do not hold, those of Limits first.
	//
	// +optional
	Violations []PolicyViolation `json:"violations,omitempty"`
	// open are the conditions that need a fact that is not known yet.
	//
	// +optional
	Open []OpenCondition `json:"open,omitempty"`
	// people are the required and the counted approvals by people.
	//
	// +optional
	People *PeopleDecision `json:"people,omitempty"`
	// renews is the earlier request that the request renews, if the renewal needs no
	// approval by people.
	//
	// +optional
	Renews *DecidedRenewal `json:"renews,omitempty"`
	// considered are the results of all policies for the signer.
	//
	// +optional
	Considered []ConsideredPolicy `json:"considered,omitempty"`
	// shadow are the changes that policies in the modes Shadow and Warn would make.
	//
	// +optional
	Shadow []ShadowDecision `json:"shadow,omitempty"`
	// facts are the objects and answers that the decision read, other than the request
	// itself.
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

// DecisionStage is the stage at which a decision is made.
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

// DecisionOutcome is the result of a decision.
type DecisionOutcome string

// The outcomes.
const (
	// OutcomeApprove: the request needs no approval by people, or enough people approved
	// it.
	OutcomeApprove DecisionOutcome = "Approve"
	// OutcomeDeny: the request is denied.
	OutcomeDeny DecisionOutcome = "Deny"
	// OutcomeNeedPeople: people have to approve the request.
	OutcomeNeedPeople DecisionOutcome = "NeedPeople"
	// OutcomeWait: a fact is not known yet.
	OutcomeWait DecisionOutcome = "Wait"
	// OutcomeLeave: policies do not decide; any user with the right to approve can do so.
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
	// signer is the signer's name, as in match.signers.
	//
	// +optional
	Signer string `json:"signer,omitempty"`
	// requester is the username of the requester.
	//
	// +optional
	Requester string `json:"requester,omitempty"`
	// digest is the SHA-256 digest of the requested content.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
}

// DecidingPolicy identifies a policy at the time of a decision.
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
	// reason is the reason in CamelCase, as used in conditions.
	Reason string `json:"reason"`
	// field is the part of the request, such as dnsNames[1].
	//
	// +optional
	Field string `json:"field,omitempty"`
	// value is the value there.
	//
	// +optional
	Value string `json:"value,omitempty"`
	// wouldPass lists values that would be permitted.
	//
	// +optional
	WouldPass []string `json:"wouldPass,omitempty"`
	Message   string   `json:"message"`
	// exception is the exception that covers the violation. A covered violation has no
	// effect.
	//
	// +optional
	Exception string `json:"exception,omitempty"`
}

// OpenCondition is a condition that needs a fact that is not known yet.
type OpenCondition struct {
	Policy string `json:"policy"`
	// +optional
	At string `json:"at,omitempty"`
	// fact is the unknown fact, such as nodes/n1.
	Fact string `json:"fact"`
}

// ProvenOrder is the order of an ACME client for which a request was created. The order
// references the UID of the request and matches its content.
type ProvenOrder struct {
	// endpoint is the name of the AcmeEndpoint, account the name of the AcmeAccount.
	Endpoint string `json:"endpoint"`
	Account  string `json:"account"`
	// externalKey is NAMESPACE/NAME of the account's AcmeExternalKey. Empty if the account
	// has no such key.
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
	// value is the ordered value, without the leading "*." of a wildcard.
	Value string `json:"value"`
	// +optional
	Wildcard bool `json:"wildcard,omitempty"`
	// origin is Challenge, Preauthorized by the external key, or Reused from an
	// earlier order.
	//
	// +optional
	Origin AcmeOrigin `json:"origin,omitempty"`
	// method is the type of the challenge that the client passed. Empty if the external key
	// is the proof.
	//
	// +optional
	Method string `json:"method,omitempty"`
	// validated is when control was proven.
	//
	// +optional
	Validated *metav1.Time `json:"validated,omitempty"`
}

// PeopleDecision is the required and the counted approvals of a request.
type PeopleDecision struct {
	// met is true if enough people approved.
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
	// lifetime is the lifetime of its certificate. The renewed certificate does not get a
	// longer one.
	Lifetime metav1.Duration `json:"lifetime"`
}

// PeopleMissing is a requirement of a policy and the approvals that are still missing.
type PeopleMissing struct {
	Policy string `json:"policy"`
	// count is the number of people that the policy requires.
	Count int32 `json:"count"`
	// have is the number of people who approved.
	//
	// +optional
	Have int32 `json:"have,omitempty"`
	// +optional
	Missing []PeopleFrom `json:"missing,omitempty"`
	// overriddenBy is the user who approved in place of all required people.
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
	// counts is true if the approval counts; otherwise because explains why not.
	Counts bool `json:"counts"`
	// +optional
	Because string `json:"because,omitempty"`
	// override is the user's reason for approving in place of all required people.
	//
	// +optional
	Override string `json:"override,omitempty"`
	// carriedFrom is NAMESPACE/NAME of the earlier AcmeOrder that the user approved. Empty
	// if the user approved this request.
	//
	// +optional
	CarriedFrom string `json:"carriedFrom,omitempty"`
}

// ConsideredPolicy is the result of one policy for a request.
type ConsideredPolicy struct {
	Policy string       `json:"policy"`
	Effect PolicyEffect `json:"effect"`
	// applies is true if the policy matches the request.
	Applies bool `json:"applies"`
	// because names the part of match that does not hold, if the policy does not apply.
	//
	// +optional
	Because string `json:"because,omitempty"`
	// holds is true if all conditions hold.
	//
	// +optional
	Holds bool `json:"holds,omitempty"`
	// open is the number of conditions that need an unknown fact, violations the number of
	// conditions that do not hold.
	//
	// +optional
	Open int `json:"open,omitempty"`
	// +optional
	Violations int `json:"violations,omitempty"`
}

// ShadowDecision is the outcome that a policy in the mode Shadow or Warn would have.
type ShadowDecision struct {
	Policy  string          `json:"policy"`
	Mode    PolicyMode      `json:"mode"`
	Outcome DecisionOutcome `json:"outcome"`
	// differs is true if the outcome differs from the one without the policy.
	//
	// +optional
	Differs bool `json:"differs,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Violations []PolicyViolation `json:"violations,omitempty"`
}

// DecisionFact is a fact that a decision read: an object, an answer of the API's
// authorization, or the use of a quota.
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
	// absent is true if the object is known not to exist.
	//
	// +optional
	Absent bool `json:"absent,omitempty"`
	// content is the part of the object that the decision read. Set only in the decision
	// log.
	//
	// +optional
	Content *runtime.RawExtension `json:"content,omitempty"`
}
