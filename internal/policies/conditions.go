package policies

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// ReasonApproved is the reason of CertificateSigningRequests that a policy has approved.
const ReasonApproved = requestkind.ReasonApproved

// ConditionsOf returns the conditions of a request that people can approve; nil of
// other objects.
func ConditionsOf(object client.Object) []quorum.Condition {
	if k := requestkind.Of(object); k != nil && k.Decision != nil {
		return k.Conditions(object)
	}
	return nil
}

// ApprovedBy returns how a request that people can approve was approved.
func ApprovedBy(object client.Object) Approved {
	approved := Approved{Conditions: ConditionsOf(object)}
	for _, c := range approved.Conditions {
		approved.ByPolicy = approved.ByPolicy || c.Type == requestkind.Approved && slices.Contains(requestkind.Of(object).Decision.ByPolicy, c.Reason)
	}
	return approved
}
