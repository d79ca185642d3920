package certpolicy

import "github.com/certplane/certplane/internal/policy/profile"

// The reasons of violations. Signers use the same reasons.
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
	// ReasonKeyReused: an earlier request has the same key.
	ReasonKeyReused = "KeyReused"
	// ReasonKeyChanged: the key differs from the key of the owner's previous request.
	ReasonKeyChanged = "KeyChanged"
	// ReasonQuota: a quota is used up.
	ReasonQuota = "QuotaExceeded"
	// ReasonFactMissing: a fact that a condition needs is not known.
	ReasonFactMissing = "FactMissing"
	// ReasonNotAllowed: no Allow policy applies to the request, and a DenyRest policy
	// does.
	ReasonNotAllowed = "NotAllowed"
	// ReasonApprovalsMissing: people have to approve the request.
	ReasonApprovalsMissing = "ApprovalsMissing"
	// ReasonUnavailable: a policy for the request is not valid and cannot be evaluated.
	ReasonUnavailable = "PolicyUnavailable"
	// ReasonChanged: the request was approved under a policy that no longer
	// allows it.
	ReasonChanged = "PolicyChanged"
)
