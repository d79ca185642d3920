package policies

import "github.com/certplane/certplane/api/certplane/v1alpha1"

// The names of the webhooks of "certplane controllers" that decide by certificate
// policies. They begin the keys of the webhooks' annotations in audit logs.
const (
	PoliciesWebhook  = "policies." + v1alpha1.GroupName
	ApprovalsWebhook = "approvals." + v1alpha1.GroupName
	// GovernedWebhook decides nothing: API servers call it for approvals for the
	// signers that policies are about, and refuse these if it does not answer.
	GovernedWebhook  = "governed." + v1alpha1.GroupName
	OverridesWebhook = "overrides." + v1alpha1.GroupName
	RequestsWebhook  = "requests." + v1alpha1.GroupName
)
