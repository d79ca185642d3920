package server

import (
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// openPolicies returns the policies that admission, approvers and signers share.
// They are read as the server itself, so that no authorizer can keep them from
// being enforced. The key that seals approvals is derived from the key for tokens
// of service accounts: all servers of a store have it.
func openPolicies(cfg Config, asServer *rest.Config, credentials *credentials) (*policies.Policies, error) {
	key, err := policies.DeriveSealKey(credentials.serviceAccountKey)
	if err != nil {
		return nil, err
	}
	seals := &policies.Seals{}
	if err := seals.Use(key); err != nil {
		return nil, err
	}
	return controllermanager.Config{Settings: cfg.Settings}.OpenPolicies(controllermanager.PolicyReader{
		API: asServer, Mapper: newMapper, Defined: true, Namespace: rights.ServeNamespace, Seals: seals,
		Metrics: legacyregistry.Registerer(),
	})
}
