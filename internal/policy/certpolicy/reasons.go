package certpolicy

import "github.com/certplane/certplane/internal/policy/profile"

// The reasons of violations. Those that Signers have as well are the same.
const (
	ReasonKey        = profile.ReasonUnsupportedKeyType
	ReasonNames      = profile.ReasonNames
	ReasonSubject    = profile.ReasonSubject
	ReasonUsages     = profile.ReasonUsages
	ReasonExtensions = profile.ReasonExtensions
	ReasonCA         = profile.ReasonCA
	ReasonTooShort   = profile.ReasonLifetime
	ReasonRule       = profile.ReasonRule
	ReasonExpression = profile.ReasonExpression
	ReasonUnreadable = profile.ReasonInvalidRequest

	ReasonTooLong           = "LifetimeTooLong"
	ReasonTooManyNames      = "TooManyNames"
	ReasonNameRequired      = "NameRequired"
	ReasonAttributeRequired = "AttributeRequired"
	ReasonUsageRequired     = "UsageRequired"
	// ReasonKeyReused: the key is that of an earlier request.
	ReasonKeyReused = "KeyReused"
	// ReasonKeyChanged: the key is not that of the owner's previous request.
	ReasonKeyChanged = "KeyChanged"
	// ReasonQuota: a quota is used up.
	ReasonQuota = "QuotaExceeded"
	// ReasonFactMissing: a fact that a condition needs is not known.
	ReasonFactMissing = "FactMissing"
	// ReasonNotAllowed: no Allow policy is about the request, and a DenyRest is.
	ReasonNotAllowed = "NotAllowed"
	// ReasonApprovalsMissing: people have to approve the request.
	ReasonApprovalsMissing = "ApprovalsMissing"
	// ReasonUnavailable: a policy for the request is not valid, so that nobody
	// knows what it says.
	ReasonUnavailable = "PolicyUnavailable"
	// ReasonChanged: the request was approved under a policy that no longer
	// allows it.
	ReasonChanged = "PolicyChanged"
)
