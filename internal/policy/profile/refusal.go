package profile

import "fmt"

// The reasons of refusals, unless a rule has its own. The first two are defined
// by the API for pods' requests.
const (
	ReasonUnsupportedKeyType = "UnsupportedKeyType"
	ReasonInvalidAnnotations = "InvalidUnverifiedUserAnnotations"
	// ReasonUnservedKind: the signer does not serve requests of this kind.
	ReasonUnservedKind = "UnservedKind"
	// ReasonInvalidRequest: the request contradicts itself.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonUsages, ReasonSubject, ReasonNames, ReasonExtensions and ReasonCA:
	// the request asks for something that the certificate would not contain.
	ReasonUsages     = "UsageNotPermitted"
	ReasonSubject    = "SubjectNotPermitted"
	ReasonNames      = "NameNotPermitted"
	ReasonExtensions = "ExtensionNotPermitted"
	ReasonCA         = "CertificateAuthorityNotPermitted"
	// ReasonNameless: the profile yields neither a subject nor a name.
	ReasonNameless = "NoName"
	// ReasonRule is the reason of rules that do not set one.
	ReasonRule = "RuleViolated"
	// ReasonExpression: an expression of the profile has no value for the
	// request.
	ReasonExpression = "ExpressionFailed"
	// ReasonLifetime: the requested lifetime is too short.
	ReasonLifetime = "LifetimeTooShort"
)

// Refusal is why a request gets no certificate. It is permanent: the same request is
// refused again until the Signer changes.
type Refusal struct {
	// Reason is the reason of the condition on the request.
	Reason string
	// Field is the part of the Signer that refuses, such as
	// spec.profile.rules[2].
	Field string
	// Message is for the requester.
	Message string
}

func (r *Refusal) Error() string { return r.Message + " (" + r.Field + ")" }

func refuse(reason, field, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)}
}
